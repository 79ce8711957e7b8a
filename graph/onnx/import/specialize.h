// Graphs specialized to the sizes of given inputs.
#pragma once

#include <functional>
#include <span>

#include "graph/graph.h"
#include "graph/open_graph.h"

namespace rewright::graph {

// The graph for inputs of these sizes, in the order of graph.inputs(). Broadcasting operators were assumed to have equal sizes
// where these have different names. If one of them is 1 in these inputs, the assumption does not hold, and the model is
// imported again with their sizes. Throws Error(kBadInput) if inputs do not fit.
Graph specialized(const Graph& graph, std::span<const Tensor> inputs);
// For graphs that are specialized many times.
Graph specialized(const OpenGraph& graph, std::span<const Tensor> inputs);
// For one that stands for `written`, of which it was made by `form`: the latter may have nodes that cannot be exported.
Graph specialized(const OpenGraph& graph, const Graph& written, const std::function<Graph(const Graph&)>& form,
                  std::span<const Tensor> inputs);

// Exports the graph and imports it with the sizes of these inputs.
Graph read_again(const Graph& graph, std::span<const Tensor> inputs);

// The graph with those procedures written out that are executed as graphs of operators (Procedure::graph without a
// Procedure::run), where sizes and parameters are known, so that a backend compiles them with what stands around them. Inputs
// and outputs stay. The graph itself if nothing can be written out, if sizes of its inputs are open, or if its constants are
// too large to be read again.
Graph written_out(const Graph& graph);

// Is one of these inputs empty though its sizes are open in the graph? Open sizes were assumed to be at least 1, so the model
// must then be imported again.
bool is_open_and_empty(const Graph& graph, std::span<const Tensor> inputs);

}  // namespace rewright::graph
