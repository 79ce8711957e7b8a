// Nodes whose results are pieces of their operand, as nodes of one result each, which can be grouped one by one.
#pragma once

#include "graph/graph.h"

namespace rewright::planning {

// The same graph with a Slice for each result of a node that has several, if all of them are an operand's elements at a
// distance.
Graph with_pieces_apart(Graph graph);

}  // namespace rewright::planning
