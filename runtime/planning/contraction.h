// Contractions: sums of products of two tensors over axes that both have, as Einsum writes them.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace rewright::planning {

// The graph with contractions as products of matrices, of operands whose axes are moved and put together; which one is a
// contraction its denotation says. Nodes that `served` says something else computes stay, and so do those of unknown sizes.
Graph with_matrix_products(const Graph& graph, const std::function<bool(const Node&)>& served);

}  // namespace rewright::planning
