// The opset of ONNX's own operators that a graph is written in.
#pragma once

#include "graph/graph.h"

namespace rewright::graph {

int opset_of(const Graph& graph);

}  // namespace rewright::graph
