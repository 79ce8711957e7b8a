// Replaces nodes whose results are slices of an operand, such as Split, by one node for each result, so that each can be
// grouped.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace rewright::planning {

// The graph with a Slice per result in place of each node of several results that are all an operand's elements at a constant
// offset. Nodes for which `computes` is true are known to do more than that.
Graph with_pieces_apart(Graph graph, const std::function<bool(const Node&)>& computes);

}  // namespace rewright::planning
