// Random string inputs for models.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace rewright::graph {

// Random strings for an input of a graph: words, or decimal numbers if a Cast to numbers reads them.
Tensor random_strings(const Graph& graph, ValueId input, Sizes sizes, std::uint64_t seed);

}  // namespace rewright::graph
