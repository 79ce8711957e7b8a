// A graph as it comes back from the file that it is written to, to see whether that computes the same.
#pragma once

#include <optional>

#include "graph/graph.h"

namespace rewright::graph {

// Written in memory and imported again; nothing if its weights have more bytes than this. Throws Error as export and import do.
std::optional<Graph> read_back(const Graph& graph, std::size_t most_bytes);

}  // namespace rewright::graph
