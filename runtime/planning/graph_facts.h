// Facts that planning reads off a graph whose sizes are all known, the same for every device.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace rewright::planning {

// A value's type and sizes, all known.
struct ValueInfo {
  DataType type = DataType::kUndefined;
  Sizes sizes;
};

// Throws Error(kUnsupported), naming the value, where they are not known.
ValueInfo value_info(const Graph& graph, ValueId value);

// A constant, or the contents of a small integer tensor as far as they follow from the sizes; an empty tensor otherwise.
Tensor known_tensor(const Value& value);

// The definition of a node whose operator is known, for the operands that it has in the graph.
Definition define(const Graph& graph, const Node& node);

// Throws Error(kUnsupported) with the reason, naming the node, where its operator is not known.
void require_operator(const Node& node);

// The number in a tensor of one element; nullopt for any other tensor, and for an empty one.
std::optional<double> only_number(const Tensor& tensor);

// By node: does an output of the graph depend on it, other than through values that are known now?
std::vector<bool> needed_nodes(const Graph& graph, const std::function<bool(ValueId)>& is_known);

// Some nodes as profiles show them.
struct Description {
  std::string node;       // name in the model of the last node that has one; empty if none has
  std::string operators;  // "Conv+Relu"
  double flops = 0;       // of the first outputs, as their denotations count them
};
Description describe(const Graph& graph, const std::vector<int>& nodes, bool counts_operations = true);

}  // namespace rewright::planning
