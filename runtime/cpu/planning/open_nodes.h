// The nodes of a graph with open sizes, for the plans of its sizes: what is shown of them holds for all plans.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "graph/graph.h"

namespace rewright::cpu {

class OpenNodes {
 public:
  // `open`: with open sizes; null: there is none, and no node has another one. `planned`: with numbers for them, behind all
  // passes; none of its nodes has another one either if a pass has numbered values anew.
  OpenNodes(const Graph* open, const Graph& planned);
  // The node that this one is with known sizes; null if there is none, as for nodes that a pass has made.
  const std::shared_ptr<const Node>* of(const Node& node) const;
  const Graph& graph() const { return *graph_; }
  // By axis: is the value's size open?
  bool is_open(ValueId value, std::size_t axis) const;

 private:
  const Graph* graph_;
  std::vector<std::int32_t> producers_;  // by value
};

// Is the element of the node's first output the same expression for all open sizes, whatever they are? Then it reads operands
// at positions that no open size is a part of, and each once: reductions, and what is read or chosen under a condition, count
// as others.
bool is_free_of_sizes(const Graph& open_graph, const Node& node);

// Are these the same element of the first output, but for the variables of its axes?
bool is_same_element(const Output& a, const Output& b);

}  // namespace rewright::cpu
