// Contractions: sums of products of two tensors over shared axes, such as Einsum.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace rewright::planning {

// The graph with contractions, found by their denotations, replaced by transposes, reshapes and a MatMul. Nodes for which
// `served` is true stay, and so do those of unknown sizes.
Graph with_matrix_products(const Graph& graph, const std::function<bool(const Node&)>& served);

}  // namespace rewright::planning
