// Facts of graphs with known sizes, for the planners of all devices.
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

// Throws Error(kUnsupported) with the value's name if they are not known.
ValueInfo value_info(const Graph& graph, ValueId value);

// A constant, or the contents of a small integer tensor that follow from known sizes; otherwise an empty tensor.
Tensor known_tensor(const Value& value);

// The definition of a node with a known operator, for its operands in the graph.
Definition define(const Graph& graph, const Node& node);

// Throws Error(kUnsupported) with the reason and the node's name if its operator is not known.
void require_operator(const Node& node);

// The number in a tensor of one element; nullopt for any other tensor.
std::optional<double> only_number(const Tensor& tensor);

// By node: does an output of the graph depend on it, other than through known values?
std::vector<bool> needed_nodes(const Graph& graph, const std::function<bool(ValueId)>& is_known);

// By node: is it part of what is planned? Not if outputs depend on it only through contents that follow from the graph's sizes,
// which may be open. Nodes that depend on constants alone count as others do: how they are folded is decided for known sizes.
std::vector<bool> planned_nodes(const Graph& graph);

// Some nodes as shown in profiles.
struct Description {
  std::string node;       // model's name of the last node that has one; may be empty
  std::string operators;  // "Conv+Relu"
  double flops = 0;       // of the first outputs, by their denotations
};
Description describe(const Graph& graph, const std::vector<int>& nodes, bool counts_operations = true);

}  // namespace rewright::planning
