// Contractions: sums of products of two tensors over common axes, such as Einsum.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace rewright::planning {

// The graph with contractions, recognized by their denotations, replaced by transposes, reshapes and a MatMul. Nodes for which
// `served` is true, and those of unknown sizes, stay.
Graph with_matrix_products(const Graph& graph, const std::function<bool(const Node&)>& served);

}  // namespace rewright::planning
