// Computes graphs in another precision than their tensors': in double, for constant folding, or half and bfloat16 in float.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace rewright::cpu {

// The graph with every float, half and bfloat16 tensor as double; unchanged if an operator does not support that.
Graph in_double(const Graph& graph);

// The graph with half and bfloat16 tensors as float between its inputs and outputs, which keep their types. Values are rounded
// at outputs, at nodes that name a result type, and at first operands of nodes for which `rounds_operand` is true. Unchanged if
// an operator does not support that.
Graph in_float(Graph graph, const std::function<bool(const Graph& graph, const Node& node)>& rounds_operand = {});

// Reals as doubles; other types unchanged.
Tensor widened(const Tensor& tensor);
// Rounds to a narrower real type, if it is one.
Tensor narrowed(const Tensor& tensor, DataType type);

}  // namespace rewright::cpu
