// Sizes for a model that leaves some open, to measure and to compare it at.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "graph/graph.h"

namespace rewright {

using NamedSizes = std::map<std::string, std::int64_t>;

// `given`, and a size for every other named size of the graph's inputs: 1 for those of first axes, and for all others the least
// of 1 and some usual sizes with which every operator is well-typed (a window may not fit into 1). `given` alone if there is
// none.
NamedSizes fitting_sizes(const Graph& graph, NamedSizes given);

}  // namespace rewright
