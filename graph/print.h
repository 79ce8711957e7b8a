// Names of parts of graphs in messages.
#pragma once

#include <string>

#include "graph/graph.h"

namespace rewright::graph {

// The node's name in the model, else the first name among its outputs, else its operator's name.
std::string node_name(const Graph& graph, const Node& node);

// "float[N, 3, 224, 224]", or the part of it that is known.
std::string type_text(const TensorType& type, bool shape_known);

}  // namespace rewright::graph
