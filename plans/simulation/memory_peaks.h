// The most memory that buffers take at one time, by device.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/namespaces.h"
#include "plans/simulation/task_graph.h"

namespace rewright::plans {

class Engine;

// Devices whose buffers are always the same ones form a class, and are counted once. After a run, classes with buffers whose
// tasks may have other times are counted again.
class MemoryPeaks {
 public:
  MemoryPeaks(std::size_t devices, const TaskGraph& graph, const Engine& engine);

  void changed(const TaskChanges& changes, std::span<const std::uint32_t> touched);
  std::span<const double> peaks();

 private:
  struct Place {  // buffers of the same devices
    Devices devices;
    std::vector<std::size_t> classes;
    std::set<std::pair<std::uint32_t, std::size_t>> buffers;  // block, number
  };
  void add_block(std::uint32_t block);
  void remove_block(std::uint32_t block);
  void make_classes();
  double peak(std::size_t number) const;

  const TaskGraph& graph_;
  const Engine& engine_;
  std::map<Devices, std::size_t> place_numbers_;
  std::vector<Place> places_;
  std::map<std::uint32_t, std::vector<std::size_t>> places_of_block_;
  std::map<TaskName, std::set<std::size_t>> places_of_task_;  // whose buffers begin or end with it
  std::vector<std::size_t> class_of_;                         // by device
  std::vector<std::vector<std::size_t>> places_of_class_;
  std::set<std::size_t> changed_;  // places
  std::vector<double> peak_of_class_, peaks_;
  bool has_classes_ = false;
};

}  // namespace rewright::plans
