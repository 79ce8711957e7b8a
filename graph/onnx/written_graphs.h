// Graphs in files for other processes, which share their weights: the same model at several sizes, and rewritten.
//
//   WrittenGraphs files;
//   run_elsewhere(files.write(graph), files.write(rewritten));
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/temporary_folder.h"
#include "graph/graph.h"

namespace rewright::graph {

struct ExternalPart;

class WrittenGraphs {
 public:
  // Graphs with fewer bytes of weights are files by themselves.
  static constexpr std::size_t kLeastShared = std::size_t{64} << 20;
  explicit WrittenGraphs(std::size_t least_shared = kLeastShared);
  ~WrittenGraphs();
  WrittenGraphs(const WrittenGraphs&) = delete;
  WrittenGraphs& operator=(const WrittenGraphs&) = delete;

  // The file of a graph, which lives as long as this object. An equal graph has the same one, and weights that are the same
  // memory are written once. Throws Error(kMissing) if it cannot be written.
  std::filesystem::path write(const Graph& graph);

  const std::filesystem::path& folder() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
  std::size_t least_shared_;
  std::unique_ptr<ExternalPart> shared_;
  std::map<std::pair<std::uint64_t, std::size_t>, std::string> files_;  // by hash, which leaves out dead nodes, and nodes
};

}  // namespace rewright::graph
