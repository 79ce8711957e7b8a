// The work of a graph.
#pragma once

#include "graph/graph.h"

namespace rewright::optimizer {

// The number of elements that the graph's nodes compute, and of arithmetic operations for them. Unknown sizes count as 1.
// Opaque nodes and what is ill-typed for unknown sizes count as 0.
double operations_of(const Graph& graph);

}  // namespace rewright::optimizer
