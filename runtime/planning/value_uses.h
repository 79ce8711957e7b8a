// The nodes that read each value of a graph.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "graph/graph.h"

namespace rewright::planning {

// Reads by unneeded nodes do not count.
class ValueUses {
 public:
  ValueUses(const Graph& graph, const std::function<bool(std::size_t node)>& needed);

  // The nodes that read the value, ascending, each once.
  const std::vector<std::int32_t>& nodes(ValueId value) const { return nodes_[value]; }
  bool is_output(ValueId value) const { return is_output_[value]; }  // of the graph
  bool is_used(ValueId value) const { return is_output_[value] || !nodes_[value].empty(); }
  // The only node that reads the value; -1 if there is none or several, or if the value is an output of the graph.
  int only_node(ValueId value) const { return is_output_[value] || nodes_[value].size() != 1 ? -1 : nodes_[value][0]; }
  // From now on the node reads `to` instead of `from`.
  void redirect(int node, ValueId from, ValueId to);

 private:
  std::vector<std::vector<std::int32_t>> nodes_;  // by value
  std::vector<bool> is_output_;                   // by value
};

}  // namespace rewright::planning
