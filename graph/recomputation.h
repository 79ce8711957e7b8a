// Graphs in which nodes are computed again: copies of nodes, whose results later readers use in place of the first ones, so
// that these need not stay in memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace rewright::graph {

// Nodes that are recomputed before another one; positions in the graph, in execution order.
struct Recomputation {
  std::int32_t before = 0;
  std::vector<std::int32_t> nodes;
  friend bool operator==(const Recomputation&, const Recomputation&) = default;
};

struct RecomputedGraph {
  Graph graph;
  std::vector<std::int32_t> of_node;  // by node: its position in the graph that was given, or that of the node it is a copy of
  std::vector<bool> again;            // by node: is it a copy?
};

// The graph with copies of nodes; readers after a copy use the copy. Unused nodes are dropped. Values keep their numbers.
// Graph::tidy must not be called, since it would merge the copies. Throws Error(kBadInput) for nodes that are not there or
// whose operands are not there yet, and for those that would not compute the same again: opaque ones and random ones.
RecomputedGraph with_recomputations(const Graph& graph, std::span<const Recomputation> recomputations);

}  // namespace rewright::graph
