// The nodes that read each value of a graph.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace rewright::planning {

// Reads by unneeded nodes do not count.
class ValueUses {
 public:
  ValueUses(const Graph& graph, const std::function<bool(std::size_t node)>& needed);

  // The nodes that read the value, ascending, each once. Valid until the next redirect.
  std::span<const std::int32_t> nodes(ValueId value) const {
    return std::span(nodes_).subspan(readers_[value].first, readers_[value].count);
  }
  bool is_output(ValueId value) const { return is_output_[value]; }  // of the graph
  bool is_used(ValueId value) const { return is_output_[value] || readers_[value].count > 0; }
  // The only node that reads the value; -1 if there is none or several, or if the value is an output of the graph.
  int only_node(ValueId value) const { return is_output_[value] || readers_[value].count != 1 ? -1 : nodes(value)[0]; }
  // From now on the node reads `to` instead of `from`.
  void redirect(int node, ValueId from, ValueId to);

 private:
  struct Readers {
    std::size_t first = 0, count = 0;  // in nodes_
  };
  std::vector<std::int32_t> nodes_;
  std::vector<Readers> readers_;  // by value
  std::vector<bool> is_output_;   // by value
};

}  // namespace rewright::planning
