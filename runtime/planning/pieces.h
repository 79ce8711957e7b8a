// Splits nodes whose results are slices of an operand, such as Split, into one node per result, so that each can be grouped.
#pragma once

#include "graph/graph.h"

namespace rewright::planning {

// The graph with a Slice per result in place of each node of several results that are all an operand's elements at a constant
// offset.
Graph with_pieces_apart(Graph graph);

}  // namespace rewright::planning
