// Partitioned parameters (ZeRO, stage 3), fetched for the steps of a graph: the next one is fetched while one is used.
#pragma once

#include <cstddef>
#include <functional>
#include <future>
#include <optional>
#include <vector>

#include "runtime/training/memory/step_memory.h"
#include "runtime/training/memory/work_queue.h"

namespace rewright::training {

class Prefetch {
 public:
  // Gathers a parameter, by number, from all processes.
  using Fetch = std::function<Memory(std::size_t parameter)>;
  // The queue fetches ahead and must end before this object; null: nothing is fetched ahead.
  Prefetch(Fetch fetch, WorkQueue* queue);

  void start_step();
  // The parameter for a step of the graph. The first run's order is assumed for all runs. All processes ask in the same order,
  // so that they also fetch in the same order.
  Memory take(std::size_t parameter);

 private:
  struct Fetched {
    std::size_t parameter;
    std::future<Memory> memory;
  };
  Fetched start(std::size_t parameter);

  Fetch fetch_;
  WorkQueue* queue_;
  std::vector<std::size_t> order_;  // the order of the first run
  std::size_t taken_ = 0;           // in the current run
  std::optional<Fetched> ahead_;
};

}  // namespace rewright::training
