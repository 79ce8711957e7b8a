// Replaces nodes whose results are slices of an operand, such as Split, by one node for each result, so that each can be
// grouped.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace rewright::planning {

using ComputesMore = std::function<bool(const Graph& graph, const Node& node)>;

// The graph with one Slice for each result in place of every node with several results that are all slices of an operand.
// `computes`: is the node known to do more than that?
Graph with_pieces_apart(Graph graph, const ComputesMore& computes);

}  // namespace rewright::planning
