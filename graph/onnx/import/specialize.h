// A graph for inputs whose sizes are known.
#pragma once

#include <span>

#include "graph/graph.h"

namespace rewright::graph {

// The graph for inputs of these sizes, in the order of graph.inputs(). An operator that broadcasts takes sizes that only have
// different names for equal; where these inputs say otherwise (one of them is 1), the model is read again with their sizes,
// since more may have been concluded from it. Throws Error(kBadInput) if inputs do not fit.
Graph specialized(const Graph& graph, std::span<const Tensor> inputs);

// The model as the graph is written, read with the sizes of these inputs known.
Graph read_again(const Graph& graph, std::span<const Tensor> inputs);

// Has one of these inputs no elements, though the graph leaves its sizes open? What was concluded from open sizes takes them to
// be at least 1: the model is to be read again.
bool is_open_and_empty(const Graph& graph, std::span<const Tensor> inputs);

}  // namespace rewright::graph
