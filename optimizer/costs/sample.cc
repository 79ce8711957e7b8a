#include "optimizer/costs/sample.h"

#include <unordered_map>

namespace rewright::optimizer {

namespace {

// Weights for a sample. Their values do not matter, except that special cases are avoided.
Tensor plausible_weights(const TensorType& type) {
  const Sizes sizes = values(type.shape);
  std::vector<double> elements(static_cast<std::size_t>(element_count(sizes)));
  std::uint64_t state = 88172645463325252ull;
  for (double& element : elements) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    element = 0.01 + 0.1 * static_cast<double>(state >> 40) / static_cast<double>(1 << 24);
  }
  return Tensor::from_reals(type.type, sizes, elements);
}

AttributeValue with_numbers(const AttributeValue& value, const Substitution& sizes) {
  if (const Index* index = std::get_if<Index>(&value)) return substitute(*index, sizes);
  if (const Indices* indices = std::get_if<Indices>(&value)) return substitute(*indices, sizes);
  return value;
}

}  // namespace

NodeOfSample node_of_sample(const MatchedGraph& graph, const Node& node, const Substitution& sizes) {
  NodeOfSample sample{node.op, {}, std::vector<OperandSample>(node.inputs.size())};
  for (const AttributeValue& attribute : node.attributes) sample.attributes.push_back(with_numbers(attribute, sizes));
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId id = node.inputs[i];
    if (id == kNoValue) continue;
    const Value& value = graph.graph->value(id);
    OperandSample& operand = sample.operands[i];
    operand.type = {value.type.type, substitute(value.type.shape, sizes)};
    operand.present = true;
    operand.constant = graph.constant[id];
    operand.value = id;
    // Integers are positions, shapes and counts, on which the computation depends.
    if (!is_real(value.type.type) && value.constant) operand.tensor = value.constant;
  }
  return sample;
}

std::vector<NodeOfSample> nodes_of_sample(const MatchedGraph& graph, std::span<const std::uint32_t> positions,
                                          const Substitution& sizes) {
  std::vector<NodeOfSample> nodes;
  std::unordered_map<ValueId, std::int32_t> made;
  for (const std::uint32_t position : positions) {
    const Node& node = *graph.graph->nodes()[position];
    nodes.push_back(node_of_sample(graph, node, sizes));
    for (OperandSample& operand : nodes.back().operands) {
      if (!operand.present) continue;
      const Tensor& tensor = graph.graph->value(operand.value).constant;
      if (tensor && tensor.size() == 1) operand.tensor = tensor;
      if (const auto member = made.find(operand.value); member != made.end()) operand.member = member->second;
    }
    made.emplace(node.outputs.at(0), static_cast<std::int32_t>(nodes.size() - 1));
  }
  return nodes;
}

std::vector<std::optional<TensorType>> types_of(const std::vector<OperandSample>& operands) {
  std::vector<std::optional<TensorType>> types;
  for (const OperandSample& operand : operands) types.push_back(operand.present ? std::optional(operand.type) : std::nullopt);
  return types;
}

std::string describe(const std::string& op, const Attributes& attributes, const std::vector<OperandSample>& operands) {
  std::string text = op + "(";
  for (const AttributeValue& attribute : attributes) text += to_string(attribute) + ";";
  text += ")";
  for (const OperandSample& operand : operands) {
    text += !operand.present ? " -" : (operand.constant ? " constant " : " ") + to_string(operand.type);
    if (operand.tensor) text += "#" + std::to_string(operand.tensor->content_hash());
  }
  return text;
}

std::string describe(std::span<const NodeOfSample> nodes) {
  std::string text;
  std::unordered_map<ValueId, std::size_t> outside;
  for (const NodeOfSample& node : nodes) {
    text += (text.empty() ? "" : " | ") + describe(node.op->name(), node.attributes, node.operands) + " of";
    for (const OperandSample& operand : node.operands) {
      if (operand.member >= 0)
        text += " %" + std::to_string(operand.member);
      else if (operand.present && !operand.constant)
        text += " x" + std::to_string(outside.emplace(operand.value, outside.size()).first->second);
    }
  }
  return text;
}

Graph make_sample(std::span<const NodeOfSample> nodes) {
  Graph graph;
  std::unordered_map<ValueId, ValueId> outside;
  std::vector<std::vector<ValueId>> made;
  for (const NodeOfSample& node : nodes) {
    std::vector<ValueId> inputs;
    for (const OperandSample& operand : node.operands) {
      if (!operand.present) {
        inputs.push_back(kNoValue);
      } else if (operand.member >= 0) {
        inputs.push_back(made[static_cast<std::size_t>(operand.member)].at(0));
      } else if (operand.tensor) {
        inputs.push_back(graph.add_constant(*operand.tensor));
      } else if (operand.constant) {
        inputs.push_back(graph.add_constant(plausible_weights(operand.type)));
      } else {
        const auto [entry, added] = outside.try_emplace(operand.value, kNoValue);
        if (added) entry->second = graph.add_input("x" + std::to_string(outside.size() - 1), operand.type);
        inputs.push_back(entry->second);
      }
    }
    made.push_back(graph.add_node(*node.op, node.attributes, inputs));
  }
  for (std::size_t i = 0; i < made.back().size(); ++i) graph.add_output("y" + std::to_string(i), made.back()[i]);
  return graph;
}

}  // namespace rewright::optimizer
