// Gradients of opaque nodes: operators whose sizes depend on elements, and branches that are chosen during execution.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace rewright::graph {

// The ONNX operators with such a gradient.
const std::set<std::string>& opaque_operators_with_gradient();

// Adds the nodes that compute the gradients of the wanted inputs, also captured ones, from those of the outputs (kNoValue:
// zero). Returns one value for each input, kNoValue where there is none. The nodes can be differentiated again. Throws
// Error(kUnsupported), with the reason, if the node has no gradient.
std::vector<ValueId> add_opaque_gradient(Graph& graph, const Node& node, const std::vector<ValueId>& output_gradients,
                                         const std::vector<bool>& wanted);

}  // namespace rewright::graph
