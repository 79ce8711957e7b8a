// Strings to try a model on.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace rewright::graph {

// Random strings for an input of a graph: words, or numbers in digits if a Cast to numbers reads them somewhere.
Tensor random_strings(const Graph& graph, ValueId input, Sizes sizes, std::uint64_t seed);

}  // namespace rewright::graph
