// Regions: a part of a graph as a graph of its own, to be rewritten and put back.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace rewright::optimizer {

// A part of a graph taken out. Its inputs are the values that come from outside; constants, and what is computed from them,
// are inside; its outputs are the values that are used outside. Numbers of nodes and values depend on the graph and the
// chosen nodes alone.
struct Region {
  std::vector<std::uint32_t> nodes;  // positions in the graph, ascending; without those computed from constants
  Graph graph;
  std::vector<ValueId> outer;  // for each value of `graph` its number in the whole
};

// Takes regions out of one graph, whose connections are worked out once. The graph must outlive it and stay as it is.
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

// The whole with the region's graph replaced by `replacement`, a graph that came out of the region's by rewrites. nullopt if
// that makes a cycle.
std::optional<Graph> splice(const Graph& whole, const Region& region, const Graph& replacement);

// Equal for regions that are the same node by node, in the same order, up to the contents of real constants: what was found
// for one can be tried on the other, step by step.
std::uint64_t structure_hash(const Graph& graph);

// Equal for graphs that compute the same from the same inputs up to the contents of constants; the order of nodes and how
// constants are computed does not count. `constant` and `producers` as of the graph.
std::uint64_t skeleton_hash(const Graph& graph, const std::vector<bool>& constant);

// Cuts a graph into intervals of its topological order, where few values cross: each has at most `most` nodes that are not
// computed from constants, and consecutive small pieces are joined. `shift` > 0 moves the borders, so that what was a border
// before lies inside of a region. Every region is the positions of its nodes.
std::vector<std::vector<std::uint32_t>> split(const Graph& graph, const std::vector<bool>& constant, std::size_t most,
                                              int shift);

}  // namespace rewright::optimizer
