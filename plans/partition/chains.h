// Chains: work of a step that cannot run side by side. They are nodes that read each other's results, all that comes before the
// first of them, and all that comes behind the last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/namespaces.h"
#include "graph/graph.h"

namespace rewright::plans {

// A value on its way to a node that reads it, or to an output of the graph.
struct ChainLink {
  static constexpr std::int32_t kOutput = -1;
  ValueId value = kNoValue;
  std::int32_t reader = kOutput;  // its position
  std::size_t port = 0;           // the reader's operand, or the number of the output
};

// Work that is done one after the other.
struct Chain {
  double seconds = 0;
  std::vector<std::size_t> nodes;  // positions
  std::vector<ChainLink> links;
};

// Chains of one graph. A chain has three parts, each of which ends before the next one begins: nodes, each of which reads what
// the one before it computes, with the links between them; before these the computing, or the links, of all that the first node
// depends on (or nothing); behind them the same of all that depends on the last one. All computing takes turns, and so do all
// links, so that no order of a step takes less.
class Chains {
 public:
  explicit Chains(const Graph& graph);

  // The longest ones through each node where nodes and links take so many seconds, longest first: at most so many of different
  // nodes, each longer than `longer_than`. A value's links to several readers may be one, so that only the longest of them
  // counts.
  std::vector<Chain> longest(const std::function<double(std::size_t node)>& node_seconds,
                             const std::function<double(const ChainLink& link)>& link_seconds, double longer_than,
                             std::size_t most) const;

 private:
  struct Side;
  bool depends(std::size_t node, std::size_t on) const { return ancestors_[node][on / 64] >> (on % 64) & 1; }

  const Graph& graph_;
  std::vector<std::int32_t> producers_;
  std::vector<std::vector<ChainLink>> links_;          // of each value
  std::vector<std::vector<std::uint64_t>> ancestors_;  // of each node, a bit for each
};

}  // namespace rewright::plans
