// Which calls export writes as they stood in the model (Expansion of graph/graph.h).
#pragma once

#include <set>

#include "graph/graph.h"

namespace rewright::graph {

// The expansions whose nodes no rewrite changed, and whose inner values nothing else reads.
std::set<const Expansion*> intact_expansions(const Graph& graph);

}  // namespace rewright::graph
