// Regions: parts of a graph as graphs of their own, to be rewritten and put back.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace rewright::optimizer {

// A part of a graph. Its inputs are values from outside; constants, and values computed from them, are inside; its outputs are
// values used outside. The numbers of its nodes and values depend only on the graph and the chosen nodes.
struct Region {
  std::vector<std::uint32_t> nodes;  // positions in the graph, ascending; without those computed from constants
  Graph graph;
  std::vector<ValueId> outer;  // from values of `graph` to those of the whole
};

// Cuts regions out of one graph, whose connections are computed once. The graph must outlive it, unchanged.
class RegionCutter {
 public:
  explicit RegionCutter(const Graph& whole)
      : whole_(whole), constant_(whole.constant_values()), producers_(whole.producers()), users_(whole.users()) {}
  Region extract(std::span<const std::uint32_t> nodes) const;

 private:
  friend class RegionCopy;
  const Graph& whole_;
  std::vector<bool> constant_;
  std::vector<std::int32_t> producers_;
  std::vector<std::vector<std::int32_t>> users_;
};

Region extract(const Graph& whole, std::span<const std::uint32_t> nodes);

// The whole graph with the region replaced by `replacement`, which was made from the region's graph by rewrites. nullopt if
// that creates a cycle.
std::optional<Graph> splice(const Graph& whole, const Region& region, const Graph& replacement);

// Equal for regions that are equal node by node in the same order, up to the contents of real constants: steps found for one
// can be tried on the other.
std::uint64_t structure_hash(const Graph& graph);

// Equal for graphs that compute the same from the same inputs, up to the contents of constants, the order of nodes, and how
// constants are computed. `constant` and `producers` are those of the graph.
std::uint64_t skeleton_hash(const Graph& graph, const std::vector<bool>& constant);

// Cuts a graph into intervals of its topological order where few values cross. Each has at most `most` nodes that are not
// computed from constants; small consecutive pieces are joined. `shift` > 0 moves the borders, so that earlier borders are
// inside regions. Nodes of `kept` calls are in none, and borders lie there. Returns node positions for each region.
std::vector<std::vector<std::uint32_t>> split(const Graph& graph, const std::vector<bool>& constant, std::size_t most,
                                              int shift, const std::set<const Expansion*>& kept = {});

}  // namespace rewright::optimizer
