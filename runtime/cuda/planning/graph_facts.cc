#include "runtime/cuda/planning/graph_facts.h"

#include "runtime/cpu/planning/plan.h"

namespace rewright::cuda {

GraphFacts::GraphFacts(const Graph& graph)
    : graph_(graph), constants_(cpu::evaluate_constants(graph, {})), needed_(graph.nodes().size()) {
  for (ValueId v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value(v);
    if (value.constant)
      constants_[v] = value.constant;
    else if (!constants_[v] && value.contents && value.shape_known && all_constant(value.type.shape) &&
             all_constant(*value.contents))
      constants_[v] = Tensor::from_integers(value.type.type, values(value.type.shape), values(*value.contents));
  }
  std::vector<bool> wanted(graph.value_count());
  for (const GraphOutput& output : graph.outputs()) wanted[output.value] = true;
  const auto nodes = graph.nodes();
  for (std::size_t n = nodes.size(); n-- > 0;) {
    for (const ValueId o : nodes[n]->outputs)
      if (o != kNoValue && wanted[o] && !constants_[o]) needed_[n] = true;
    if (!needed_[n]) continue;
    for (const ValueId i : nodes[n]->inputs)
      if (i != kNoValue) wanted[i] = true;
  }
}

ValueId GraphFacts::add_value(ValueInfo info) {
  added_.push_back(std::move(info));
  constants_.emplace_back();
  return static_cast<ValueId>(constants_.size() - 1);
}

ValueId GraphFacts::add_constant(Tensor tensor) {
  const ValueId value = add_value({tensor.type(), tensor.sizes()});
  constants_[value] = std::move(tensor);
  return value;
}

ValueInfo GraphFacts::info(ValueId value) const {
  if (value >= graph_.value_count()) return added_.at(value - graph_.value_count());
  const Value& v = graph_.value(value);
  if (constants_[value]) return {constants_[value].type(), constants_[value].sizes()};
  if (!v.shape_known || v.type.type == DataType::kUndefined)
    throw Error(ErrorCode::kUnsupported, "the sizes of a tensor are not known before the model runs", v.name);
  return {v.type.type, values(v.type.shape)};
}

Definition GraphFacts::define(const Node& node) const {
  return node.op->define(node.attributes, Inputs::of(std::span<const std::optional<TensorType>>(graph_.operand_types(node))));
}

}  // namespace rewright::cuda
