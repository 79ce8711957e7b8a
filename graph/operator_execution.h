// A node of an operator, interpreted by itself.
#pragma once

#include <span>
#include <vector>

#include "graph/execute.h"

namespace rewright::graph {

// `inputs` are the node's, in their order; `bound` says the named sizes in its attributes.
std::vector<Datum> execute_operator(const Node& node, std::span<const Datum> inputs, const BoundSizes& bound);

}  // namespace rewright::graph
