// The interpretation of a single node.
#pragma once

#include <span>
#include <vector>

#include "graph/execute.h"

namespace rewright::graph {

// Interprets a node of an operator. `inputs` are the node's, in their order; `bound` holds the named sizes in its attributes.
std::vector<Datum> execute_operator(const Node& node, std::span<const Datum> inputs, const BoundSizes& bound);

}  // namespace rewright::graph
