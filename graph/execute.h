// Between the interpreter of graphs and that of ONNX nodes.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace rewright {

// Executes an opaque node of `graph` by its ONNX form; `inputs` are the node's, in their order. One result for each of the
// node's outputs. Throws Error(kUnsupported) if nothing here can.
std::vector<Datum> execute_opaque(const Graph& graph, const Node& node, std::span<const Datum> inputs,
                                  const Checkpoint& checkpoint);

// Does it hold a node whose results are drawn at random?
bool has_random_results(const Graph& graph);

}  // namespace rewright
