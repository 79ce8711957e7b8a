// Graphs computed in another precision than their tensors have: in double, as folding of constants asks for, or half and
// bfloat16 in float.
#pragma once

#include "graph/graph.h"

namespace rewright::cpu {

// The same graph with every float, half and bfloat16 tensor as double. Where an operator does not allow that, the graph itself.
Graph in_double(const Graph& graph);

// The same graph with half and bfloat16 tensors as float from its inputs to its outputs, which keep their types. Results are
// rounded once, at the end, and where a node names its type. Where an operator does not allow that, the graph itself.
Graph in_float(const Graph& graph);

// Narrow reals as doubles; other types as they are.
Tensor widened(const Tensor& tensor);
// Rounded to a narrower real type, if it is one.
Tensor narrowed(const Tensor& tensor, DataType type);

}  // namespace rewright::cpu
