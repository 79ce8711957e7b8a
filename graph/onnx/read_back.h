// A graph after export and import, to check that the exported model computes the same.
#pragma once

#include <optional>

#include "graph/graph.h"

namespace rewright::graph {

// Exports the graph in memory and imports it again; nullopt if its weights take more than `most_bytes`. Throws as export and
// import do.
std::optional<Graph> read_back(const Graph& graph, std::size_t most_bytes);

}  // namespace rewright::graph
