// A graph cut where nodes stand that a backend does not compile: opaque ones, and those that read or make strings.
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
  std::vector<std::string> symbols;      // the named sizes that its nodes' attributes are made of
};

// The part is executed first, if it has nodes; then come the nodes that are interpreted, in order.
struct Stage {
  Part part;
  std::vector<std::size_t> interpreted;  // positions in the graph's nodes
};

// As few stages as these nodes allow: what follows none of them, and needs no size that one of them tells, stands in the first
// one.
std::vector<Stage> stages_of(const Graph& graph);

// These nodes of a graph, in topological order, all of them compiled. Its outputs are those of their values that `leaves` says.
Part part_of(const Graph& graph, std::span<const std::size_t> nodes, const std::vector<bool>& leaves);

// A part's graph for inputs of these types, with all other types as they follow from them.
Graph with_types(const Part& part, std::span<const TensorType> inputs, const Substitution& sizes);

}  // namespace rewright::runtime
