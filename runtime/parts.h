// Cuts a graph at the nodes that a backend does not compile: opaque ones, and those that read or make strings.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace rewright::runtime {

// Does a backend compile it? The others are interpreted.
bool is_compiled(const Graph& graph, const Node& node);
bool is_compiled(const Graph& graph);  // all its nodes, inputs and outputs

// The nodes of one stage that are compiled, as a graph.
struct Part {
  Graph graph;
  std::vector<ValueId> inputs, outputs;  // in the whole graph
  std::vector<std::string> symbols;      // named sizes in its nodes' attributes
};

// The part is executed first, if it has nodes; then come the nodes that are interpreted, in order.
struct Stage {
  Part part;
  std::vector<std::size_t> interpreted;  // positions in the graph's nodes
};

// As few stages as the interpreted nodes allow. A node is in the first stage if it depends on none of them, nor on a size that
// one of them computes.
std::vector<Stage> stages_of(const Graph& graph);

// The part of these nodes, which are in topological order and all compiled. Its outputs are their values that `leaves` marks.
Part part_of(const Graph& graph, std::span<const std::size_t> nodes, const std::vector<bool>& leaves);

// A part's graph for inputs of these types, with all other types inferred from them.
Graph with_types(const Part& part, std::span<const TensorType> inputs, const Substitution& sizes);

}  // namespace rewright::runtime
