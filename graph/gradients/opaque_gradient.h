// Gradients of opaque nodes: what has sizes that only elements tell, and branches that are chosen while the graph is executed.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace rewright::graph {

// ONNX's operators that have one.
const std::set<std::string>& opaque_operators_with_gradient();

// Adds to the graph what computes the gradients of the node's inputs, those captured by its subgraphs among them, that are
// wanted, from those of its outputs (kNoValue: zero); one for each input, kNoValue where there is none. Operators and opaque
// nodes of ONNX's operators, which can be differentiated again. Throws Error(kUnsupported), with the reason, if it has none.
std::vector<ValueId> add_opaque_gradient(Graph& graph, const Node& node, const std::vector<ValueId>& output_gradients,
                                         const std::vector<bool>& wanted);

}  // namespace rewright::graph
