#include "rules/instance.h"

#include "base/error.h"

namespace rewright::rules {

Graph instantiate(const Rule& rule, const Pattern& side, const std::vector<TensorType>& input_types, const Bindings& bindings) {
  Graph graph;
  std::vector<ValueId> inputs;
  for (std::size_t i = 0; i < rule.inputs.size(); ++i) inputs.push_back(graph.add_input(rule.inputs[i].name, input_types[i]));
  std::vector<std::vector<ValueId>> values;
  const auto value = [&](const PatternValue& v) {
    if (v.kind == PatternValue::Kind::kAbsent) return kNoValue;
    if (v.kind == PatternValue::Kind::kInput) return inputs.at(v.number);
    const auto& outputs = values.at(v.number);
    if (v.output >= outputs.size())
      throw Error(ErrorCode::kBadInput,
                  side.nodes[v.number].op->name() + " has only " + std::to_string(outputs.size()) + " outputs");
    return outputs[v.output];
  };
  for (const PatternNode& node : side.nodes) {
    Attributes attributes;
    for (const Expression& e : node.attributes) attributes.push_back(bindings.evaluate(e));
    std::vector<ValueId> operands;
    for (const PatternValue& v : node.inputs) operands.push_back(value(v));
    values.push_back(graph.add_node(*node.op, std::move(attributes), std::move(operands)));
  }
  for (std::size_t i = 0; i < side.outputs.size(); ++i) graph.add_output("y" + std::to_string(i), value(side.outputs[i]));
  return graph;
}

SideTyping infer_side(const Rule& rule, const Pattern& side, const std::vector<TensorType>& input_types,
                      const Bindings& bindings) {
  SideTyping result;
  std::vector<std::vector<TensorType>> values;
  const auto type = [&](const PatternValue& v) -> std::optional<TensorType> {
    if (v.kind == PatternValue::Kind::kAbsent) return std::nullopt;
    if (v.kind == PatternValue::Kind::kInput) return input_types.at(v.number);
    if (v.output >= values.at(v.number).size())
      throw Error(ErrorCode::kBadInput, side.nodes[v.number].op->name() + " has too few outputs", "rule " + rule.name);
    return values[v.number][v.output];
  };
  for (const PatternNode& node : side.nodes) {
    std::vector<std::optional<TensorType>> operands;
    for (const PatternValue& v : node.inputs) operands.push_back(type(v));
    const Inputs inputs = Inputs::of(std::span<const std::optional<TensorType>>(operands)).types_only();
    Attributes attributes;
    for (const Expression& e : node.attributes) attributes.push_back(bindings.evaluate(e));
    const Definition definition = node.op->define(node.op->normalized(std::move(attributes), inputs), inputs);
    for (const Requirement& r : definition.requirements()) result.conditions.push_back(r.condition);
    values.emplace_back();
    for (const Output& output : definition.outputs()) values.back().push_back(output.type);
  }
  for (const PatternValue& v : side.outputs) result.outputs.push_back(type(v).value());
  return result;
}

std::optional<RuleInstance> make_instance(const Rule& rule, std::vector<TensorType> types,
                                          const std::map<std::string, AttributeValue>& variables) {
  Bindings known(rule);
  for (const auto& [name, value] : variables) known.bind(name, value);
  for (std::size_t i = 0; i < types.size(); ++i)
    if (!known.bind_input(i, types[i])) return std::nullopt;
  for (const Quantity& q : rule.quantities) {
    const auto value = known.try_evaluate(q.value);
    if (!value || !known.bind(q.name, *value)) return std::nullopt;
  }
  Graph source = instantiate(rule, rule.source, types, known);

  // Tensors without elements are excluded.
  for (ValueId v = 0; v < source.value_count(); ++v)
    for (const Index& size : source.value(v).type.shape)
      if (size == Index(0)) return std::nullopt;

  // Binds the variables as a matcher does.
  Bindings matched(rule);
  for (std::size_t i = 0; i < types.size(); ++i)
    if (!matched.bind_input(i, types[i])) return std::nullopt;
  std::size_t n = 0;  // add_node() adds no other nodes
  if (source.nodes().size() != rule.source.nodes.size()) return std::nullopt;
  for (const auto& node : source.nodes()) {
    const auto operands = source.operand_types(*node);
    if (!matched.bind_attributes(rule.source.nodes[n++], node->attributes,
                                 Inputs::of(std::span<const std::optional<TensorType>>(operands))))
      return std::nullopt;
  }
  if (!matched.complete()) return std::nullopt;
  return RuleInstance{std::move(types), std::move(matched), std::move(source)};
}

}  // namespace rewright::rules
