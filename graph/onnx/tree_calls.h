// Calls of ensembles of trees (TreeEnsembleClassifier, TreeEnsembleRegressor) of which a rewrite changed the trees alone.
#pragma once

#include "graph/graph.h"

namespace rewright::graph {

// The graph with such calls as calls with other trees: expansions, which export writes as one node. Without that the body would
// be written, a node with trees and, for classes, several more behind it. What prepares the rows inside of TreeScores goes into
// the tests. The rest of the body must be that of the call: the values are compared by their hashes.
Graph with_tree_calls(const Graph& graph);

}  // namespace rewright::graph
