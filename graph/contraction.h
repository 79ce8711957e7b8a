// Contractions: sums of products of tensors over common axes, such as Einsum.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace rewright::graph {

// The graph with contractions, recognized by their denotations, replaced by sums, transposes, reshapes, products and MatMuls,
// two tensors at a time in the order that takes the fewest operations. Nodes for which `is_served` is true, and those of
// unknown sizes, stay. With `keeps_names` the last node of each has the origin of the node that it replaces, for profiles: such
// a graph is not for export.
using IsServed = std::function<bool(const Graph& graph, const Node& node)>;
Graph with_matrix_products(Graph graph, const IsServed& is_served, bool keeps_names = false);

}  // namespace rewright::graph
