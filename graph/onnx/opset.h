// The opset of ONNX's own domain in which a graph is exported.
#pragma once

#include "graph/graph.h"

namespace rewright::graph {

int opset_of(const Graph& graph);

}  // namespace rewright::graph
