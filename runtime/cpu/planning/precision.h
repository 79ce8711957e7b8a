// Graphs computed in another precision than their tensors have: in double, as folding of constants asks for, or half and
// bfloat16 in float.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace rewright::cpu {

// The same graph with every float, half and bfloat16 tensor as double. Where an operator does not allow that, the graph itself.
Graph in_double(const Graph& graph);

// The same graph with half and bfloat16 tensors as float from its inputs to its outputs, which keep their types. Results are
// rounded once, at the end, where a node names its type, and the first operand of nodes that `rounds_operand` says. Where an
// operator does not allow that, the graph itself.
Graph in_float(const Graph& graph, const std::function<bool(const Node&)>& rounds_operand = {});

// Narrow reals as doubles; other types as they are.
Tensor widened(const Tensor& tensor);
// Rounded to a narrower real type, if it is one.
Tensor narrowed(const Tensor& tensor, DataType type);

}  // namespace rewright::cpu
