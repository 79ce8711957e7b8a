// Graphs computed in double: what folding of constants asks for.
#pragma once

#include "graph/graph.h"

namespace rewright::cpu {

// The same graph with every float, half and bfloat16 tensor as double. Where an operator does not allow that, the graph itself.
Graph in_double(const Graph& graph);

// Narrow reals as doubles; other types as they are.
Tensor widened(const Tensor& tensor);
// Rounded to a narrower real type, if it is one.
Tensor narrowed(const Tensor& tensor, DataType type);

}  // namespace rewright::cpu
