#include "runtime/cpu/planning/precision.h"

#include <algorithm>
#include <map>
#include <set>

#include "runtime/planning/graph_facts.h"

namespace rewright::cpu {

namespace {

bool is_narrow(DataType type) { return is_real(type) && type != DataType::kDouble; }

TensorType widened(TensorType type) {
  if (is_narrow(type.type)) type.type = DataType::kDouble;
  return type;
}

// Is the element one of an operand's, which positions choose?
bool is_moved(const Element& element) {
  if (element->kind == ElementNode::Kind::kRead) return element->scalar == Scalar::kReal && !element->zero_outside;
  return element->kind == ElementNode::Kind::kChoose && is_moved(element->arguments[0]) && is_moved(element->arguments[1]);
}

bool only_moves(const Graph& graph, const Node& node) {
  const Definition definition = planning::define(graph, node);
  if (!definition.has_denotation()) return false;
  return std::all_of(definition.outputs().begin(), definition.outputs().end(),
                     [](const Output& output) { return is_moved(output.element); });
}

// Nodes that only move elements on the way to outputs: of 16 bits they move half as much.
std::set<const Node*> moves_to_outputs(const Graph& graph) {
  std::set<ValueId> computed;  // values that other nodes read, too
  std::set<const Node*> moves;
  for (auto node = graph.nodes().rbegin(); node != graph.nodes().rend(); ++node) {
    const Node& n = **node;
    const bool is_read = std::any_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) { return computed.contains(v); });
    const bool may_move = n.op != nullptr && !n.inputs.empty() && !is_read;
    if (may_move && only_moves(graph, n))
      moves.insert(&n);
    else
      computed.insert(n.inputs.begin(), n.inputs.end());
  }
  return moves;
}

// Does the node only ask whether elements are NaN or infinite? Of 16 bits they are as they are.
bool asks_for_class(const Graph& graph, const Node& node) {
  if (node.inputs.size() != 1 || node.outputs.size() != 1) return false;
  const Definition definition = planning::define(graph, node);
  if (!definition.has_denotation()) return false;
  const ElementNode& element = *definition.outputs()[0].element;
  return element.kind == ElementNode::Kind::kApply && element.arguments[0]->kind == ElementNode::Kind::kRead &&
         (element.function == &functions::is_nan || element.function == &functions::is_infinite);
}

}  // namespace

Tensor widened(const Tensor& tensor) {
  if (!tensor || !is_narrow(tensor.type())) return tensor;
  return Tensor::from_reals(DataType::kDouble, tensor.sizes(), tensor.reals());
}

Tensor narrowed(const Tensor& tensor, DataType type) {
  if (tensor.type() != DataType::kDouble || !is_narrow(type)) return tensor;
  return Tensor::from_reals(type, tensor.sizes(), tensor.reals());
}

Graph in_float(Graph graph, const std::function<bool(const Graph& graph, const Node& node)>& rounds_operand) {
  const auto is_short = [](DataType type) { return type == DataType::kHalf || type == DataType::kBfloat16; };
  const auto is_short_value = [&](ValueId v) {
    const Value& value = graph.value(v);
    return is_short(value.constant ? value.constant.type() : value.type.type);
  };
  bool any = false;
  for (ValueId v = 0; v < graph.value_count() && !any; ++v) any = is_short_value(v);
  if (!any) return graph;
  Graph wide;
  const Operator& cast = registry().get("Cast");
  const auto converted = [&](ValueId v, DataType type) {
    Attributes attributes = cast.defaults();
    attributes.at(cast.field("to").value()) = type;
    return wide.add_node(cast, std::move(attributes), {v}).at(0);
  };
  std::map<ValueId, ValueId> copies{{kNoValue, kNoValue}};
  std::map<ValueId, ValueId> moved;  // values that keep their type
  try {
    const std::set<const Node*> moves = moves_to_outputs(graph);
    for (const ValueId i : graph.inputs())
      (is_short_value(i) ? moved : copies)[i] = wide.add_input(graph.value(i).name, graph.value(i).type);
    const auto copy_of = [&](ValueId v) {
      const auto [found, added] = copies.emplace(v, kNoValue);
      if (!added) return found->second;
      if (const auto given = moved.find(v); given != moved.end()) {
        found->second = converted(given->second, DataType::kFloat);
        return found->second;
      }
      Tensor tensor = planning::known_tensor(graph.value(v));  // also what sizes tell, whose nodes are dropped
      if (is_short(tensor.type())) tensor = Tensor::from_reals(DataType::kFloat, tensor.sizes(), tensor.reals());
      found->second = wide.add_constant(std::move(tensor), graph.value(v).name);
      return found->second;
    };
    for (const auto& node : graph.nodes()) {
      if (node->op == nullptr) return graph;
      Attributes attributes = node->attributes;
      const auto is_kept = [&](ValueId v) {
        return v == kNoValue || moved.contains(v) || !is_short_value(v) || graph.value(v).constant;
      };
      if (!node->inputs.empty() && moved.contains(node->inputs[0]) &&
          std::all_of(node->inputs.begin(), node->inputs.end(), is_kept) &&
          (moves.contains(node.get()) || asks_for_class(graph, *node))) {
        std::vector<ValueId> inputs;
        for (const ValueId v : node->inputs) {
          const auto source = moved.find(v);
          if (v == kNoValue || source == moved.end())
            inputs.push_back(v != kNoValue && is_short_value(v) ? wide.add_constant(graph.value(v).constant) : copy_of(v));
          else
            inputs.push_back(source->second);
        }
        std::vector<std::string> names;
        for (const ValueId o : node->outputs) names.push_back(o == kNoValue ? std::string() : graph.value(o).name);
        const std::vector<ValueId> kept = wide.add_node(*node->op, std::move(attributes), inputs, names);
        for (std::size_t o = 0; o < node->outputs.size(); ++o)
          if (node->outputs[o] != kNoValue) (moves.contains(node.get()) ? moved : copies)[node->outputs[o]] = kept.at(o);
        continue;
      }
      for (AttributeValue& a : attributes)
        if (auto* tensor = std::get_if<Tensor>(&a); tensor != nullptr && is_short(tensor->type()))
          *tensor = Tensor::from_reals(DataType::kFloat, tensor->sizes(), tensor->reals());
      std::vector<ValueId> inputs;
      for (const ValueId i : node->inputs) inputs.push_back(copy_of(i));
      if (rounds_operand && rounds_operand(graph, *node)) {
        ValueId& operand = inputs[0];
        operand = converted(converted(operand, graph.value(node->inputs[0]).type.type), DataType::kFloat);
      }
      std::vector<std::string> names;
      for (const ValueId o : node->outputs) names.push_back(o == kNoValue ? std::string() : graph.value(o).name);
      const std::vector<ValueId> outputs = wide.add_node(*node->op, std::move(attributes), inputs, names);
      for (std::size_t o = 0; o < node->outputs.size(); ++o) {
        if (node->outputs[o] == kNoValue) continue;
        // A node that names its result's type, such as Cast, still rounds to it. Outputs have it as it is.
        const ValueId result = outputs.at(o);
        (is_short(wide.value(result).type.type) ? moved : copies)[node->outputs[o]] = result;
      }
    }
    for (const GraphOutput& o : graph.outputs())
      if (const auto kept = moved.find(o.value); kept != moved.end())
        wide.add_output(o.name, kept->second);
      else
        wide.add_output(o.name, is_short(o.type.type) ? converted(copy_of(o.value), o.type.type) : copy_of(o.value));
  } catch (const Error&) {
    return graph;
  }
  return wide;
}

Graph in_double(const Graph& graph) {
  Graph wide;
  std::map<ValueId, ValueId> copies{{kNoValue, kNoValue}};
  try {
    for (const ValueId i : graph.inputs()) copies[i] = wide.add_input(graph.value(i).name, widened(graph.value(i).type));
    const auto copy_of = [&](ValueId v) {
      const auto [found, added] = copies.emplace(v, kNoValue);
      if (added) found->second = wide.add_constant(widened(planning::known_tensor(graph.value(v))), graph.value(v).name);
      return found->second;
    };
    for (const auto& node : graph.nodes()) {
      if (node->op == nullptr) return graph;
      Attributes attributes = node->attributes;
      for (AttributeValue& a : attributes)
        if (auto* type = std::get_if<DataType>(&a); type != nullptr && is_narrow(*type)) *type = DataType::kDouble;
      for (AttributeValue& a : attributes)
        if (auto* tensor = std::get_if<Tensor>(&a)) *tensor = widened(*tensor);
      std::vector<ValueId> inputs;
      for (const ValueId i : node->inputs) inputs.push_back(copy_of(i));
      const std::vector<ValueId> outputs = wide.add_node(*node->op, std::move(attributes), inputs);
      for (std::size_t o = 0; o < node->outputs.size(); ++o)
        if (node->outputs[o] != kNoValue) copies[node->outputs[o]] = outputs.at(o);
    }
    for (const GraphOutput& o : graph.outputs()) wide.add_output(o.name, copy_of(o.value));
  } catch (const Error&) {
    return graph;
  }
  return wide;
}

}  // namespace rewright::cpu
