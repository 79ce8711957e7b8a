// How parts of graphs are called, for people.
#pragma once

#include <string>

#include "graph/graph.h"

namespace rewright::graph {

// The node's name in the model, else the first name among its results, else its operator's.
std::string node_name(const Graph& graph, const Node& node);

// "float[N, 3, 224, 224]", or as much of it as is known.
std::string type_text(const TensorType& type, bool shape_known);

}  // namespace rewright::graph
