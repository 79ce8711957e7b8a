// Calls of ensembles of trees (TreeEnsembleClassifier, TreeEnsembleRegressor) of which a rewrite changed the trees alone.
#pragma once

#include "graph/graph.h"

namespace rewright::graph {

// The graph with such calls as calls with other trees: expansions, which export writes as one node. Without that the body would
// be written, a node with trees and, for classes, several more behind it. What prepares the rows inside of TreeScores goes into
// the tests. The rest of the body must be that of the call: the values are compared by their hashes.
Graph with_tree_calls(const Graph& graph);

// Do all ensembles have a written form with whatever trees? Those of doubles have none before ai.onnx.ml 3 or outside of a
// call, and from version 5 on the domain has another operator, which export does not write.
bool can_write_other_trees(const Graph& graph);

}  // namespace rewright::graph
