#include "runtime/planning/graph_facts.h"

#include <algorithm>

#include "operators/readings/operation_count.h"

namespace rewright::planning {

ValueInfo value_info(const Graph& graph, ValueId value) {
  const Value& v = graph.value(value);
  if (v.constant) return {v.constant.type(), v.constant.sizes()};
  if (!v.shape_known || v.type.type == DataType::kUndefined)
    throw Error(ErrorCode::kUnsupported, "the sizes of a tensor are not known before the model runs", v.name);
  return {v.type.type, values(v.type.shape)};
}

Tensor known_tensor(const Value& value) {
  if (value.constant) return value.constant;
  const bool is_known = value.contents && value.shape_known && all_constant(value.type.shape) && all_constant(*value.contents);
  if (!is_known) return {};
  return Tensor::from_integers(value.type.type, values(value.type.shape), values(*value.contents));
}

Definition define(const Graph& graph, const Node& node) {
  return node.op->define(node.attributes, Inputs::of(graph.operand_types(node)));
}

void require_operator(const Node& node) {
  if (node.op != nullptr) return;
  const std::string name = node.origin ? node.origin->name : std::string();
  throw Error(ErrorCode::kUnsupported, node.opaque_reason.empty() ? "an operator is not known" : node.opaque_reason,
              name.empty() ? name : "node \"" + name + "\"");
}

std::optional<double> only_number(const Tensor& tensor) {
  if (!tensor || tensor.size() != 1) return std::nullopt;
  return tensor.reals()[0];
}

std::vector<bool> needed_nodes(const Graph& graph, const std::function<bool(ValueId)>& is_known) {
  const auto nodes = graph.nodes();
  std::vector<bool> needed(nodes.size()), wanted(graph.value_count());
  for (const GraphOutput& output : graph.outputs()) wanted[output.value] = true;
  for (std::size_t n = nodes.size(); n-- > 0;) {
    for (const ValueId o : nodes[n]->outputs)
      if (o != kNoValue && wanted[o] && !is_known(o)) needed[n] = true;
    if (!needed[n]) continue;
    for (const ValueId i : nodes[n]->inputs)
      if (i != kNoValue) wanted[i] = true;
  }
  return needed;
}

std::vector<bool> planned_nodes(const Graph& graph) {
  std::vector<bool> may_be_constant(graph.value_count());
  for (ValueId v = 0; v < graph.value_count(); ++v) may_be_constant[v] = graph.is_constant(v);
  for (const auto& node : graph.nodes()) {
    if (node->op == nullptr || node->op->random()) continue;
    const auto may_be = [&](ValueId v) { return v == kNoValue || may_be_constant[v]; };
    if (!std::all_of(node->inputs.begin(), node->inputs.end(), may_be)) continue;
    for (const ValueId v : node->outputs)
      if (v != kNoValue) may_be_constant[v] = true;
  }
  return needed_nodes(graph, [&](ValueId v) {
    const Value& value = graph.value(v);
    return value.contents && value.shape_known && all_constant(value.type.shape) && !may_be_constant[v];
  });
}

Description describe(const Graph& graph, const std::vector<int>& nodes, bool counts_operations) {
  Description result;
  const std::string* name = nullptr;
  for (const int n : nodes) {
    const Node& node = *graph.nodes()[static_cast<std::size_t>(n)];
    if (node.origin && !node.origin->name.empty()) name = &node.origin->name;
    result.operators += (result.operators.empty() ? "" : "+") + (node.op == nullptr ? "?" : node.op->name());
    if (node.op == nullptr || !counts_operations) continue;
    const Definition definition = define(graph, node);
    if (definition.outputs().empty() || !definition.outputs()[0].element) continue;
    const Output& output = definition.outputs()[0];
    if (all_constant(output.type.shape)) result.flops += operation_count(output);
  }
  if (name != nullptr) result.node = *name;
  return result;
}

}  // namespace rewright::planning
