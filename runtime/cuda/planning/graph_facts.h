// What planning knows of a graph whose sizes are all known.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"
#include "runtime/planning/facts.h"

namespace rewright::cuda {

using planning::Chain;
using planning::ValueInfo;

class GraphFacts {
 public:
  explicit GraphFacts(const Graph& graph);

  const Graph& graph() const { return graph_; }
  ValueInfo info(ValueId value) const;
  // The value if it is known now, else an empty tensor.
  const Tensor& constant(ValueId value) const { return constants_[value]; }
  // A value that is none of the graph's: what is computed in between.
  ValueId add_value(ValueInfo info);
  ValueId add_constant(Tensor tensor);
  Definition define(const Node& node) const;
  bool needed(std::size_t node) const { return needed_[node]; }

 private:
  const Graph& graph_;
  std::vector<Tensor> constants_;  // by value
  std::vector<ValueInfo> added_;
  std::vector<bool> needed_;  // by node
};

// A node's attributes by the names of the operator's fields.
template <class T>
const T& attribute(const Node& node, std::string_view name) {
  return std::get<T>(node.attributes.at(node.op->field(name).value()));
}

}  // namespace rewright::cuda
