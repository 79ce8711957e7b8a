// What an opaque node computes, apart from its inputs: to tell whether nodes of two models are the same function of them.
#pragma once

#include <string>

#include "graph/graph.h"

namespace rewright::graph {

// Equal only for nodes that compute equal results from equal inputs: operator, version, attributes, graphs inside, and the
// functions of the model that they may call. The names of values do not count.
std::string opaque_meaning(const Graph& graph, const Node& node);

// Does an opaque node, or a node of a graph inside of it, draw random numbers?
bool is_random(const Node& node);

}  // namespace rewright::graph
