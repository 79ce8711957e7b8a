// Calls of operators that a runtime computes by one kernel, and far slower in parts: attention with a cache, products with
// weights of few bits, mixtures of experts. Their bodies are no place for rewrites, and tidying must not merge nodes of one
// body with those of another (the masks of all layers follow from the same lengths), or the calls could not be written back.
#pragma once

#include <set>

#include "graph/graph.h"

namespace rewright::graph {

// The expansions of such calls that are unchanged (graph/onnx/calls.h).
std::set<const Expansion*> kept_calls(const Graph& graph);

// Graph::tidy() and Graph::try_tidy(), with each such call as if it were one node. Its members then follow one another.
void tidy_around_calls(Graph& graph);
bool try_tidy_around_calls(Graph& graph);

}  // namespace rewright::graph
