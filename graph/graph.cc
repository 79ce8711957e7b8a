#include "graph/graph.h"

#include <algorithm>
#include <unordered_map>

#include "graph/sized.h"
#include "operators/readings/interpreter.h"
#include "operators/texts.h"

namespace rewright::graph {

namespace {

// Known contents are tracked for tensors that shapes are computed with: small ones of integers or truth values.
constexpr std::int64_t kContentsLimit = 1024;

bool may_have_contents(const TensorType& type) {
  if (!is_integer(type.type) && type.type != DataType::kBool) return false;
  std::int64_t count = 1;
  for (const Index& size : type.shape) {
    if (!size.is_constant() || size.value() < 0 || size.value() > kContentsLimit) return false;
    count *= size.value();
    if (count > kContentsLimit) return false;
  }
  return true;
}

std::optional<Indices> constant_contents(const Tensor& tensor) {
  if ((!is_integer(tensor.type()) && tensor.type() != DataType::kBool) || tensor.size() > kContentsLimit) return std::nullopt;
  return to_indices(tensor.integers());
}

}  // namespace

bool Graph::is_input(ValueId id) const { return std::find(inputs_.begin(), inputs_.end(), id) != inputs_.end(); }

std::vector<bool> Graph::constant_values() const {
  std::vector<bool> constant(values_.size());
  for (ValueId id = 0; id < values_.size(); ++id) constant[id] = is_constant(id);
  for (const auto& node : nodes_) {
    if (node->op == nullptr || node->op->random() || !is_sized(node->attributes)) continue;
    bool all = true;
    for (ValueId input : node->inputs) all = all && (input == kNoValue || constant[input]);
    for (ValueId output : node->outputs) all = all && (output == kNoValue || all_constant(value(output).type.shape));
    if (!all) continue;
    for (ValueId output : node->outputs)
      if (output != kNoValue) constant[output] = true;
  }
  return constant;
}

std::vector<std::int32_t> Graph::producers() const {
  std::vector<std::int32_t> producers(values_.size(), -1);
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    for (ValueId output : nodes_[i]->outputs)
      if (output != kNoValue) producers[output] = static_cast<std::int32_t>(i);
  return producers;
}

std::vector<std::vector<std::int32_t>> Graph::users() const {
  std::vector<std::vector<std::int32_t>> users(values_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    auto use = [&](ValueId id) {
      if (id == kNoValue) return;
      auto& list = users[id];
      if (list.empty() || list.back() != static_cast<std::int32_t>(i)) list.push_back(static_cast<std::int32_t>(i));
    };
    for (ValueId id : nodes_[i]->inputs) use(id);
    for (ValueId id : nodes_[i]->parameters) use(id);
  }
  return users;
}

std::vector<TensorType> Graph::input_types(const Node& node) const {
  std::vector<TensorType> types;
  types.reserve(node.inputs.size());
  for (ValueId id : node.inputs) types.push_back(id == kNoValue ? TensorType{} : value(id).type);
  return types;
}

std::vector<std::optional<TensorType>> Graph::operand_types(const Node& node) const {
  std::vector<std::optional<TensorType>> types;
  types.reserve(node.inputs.size());
  for (ValueId id : node.inputs) {
    if (id == kNoValue)
      types.emplace_back();
    else
      types.emplace_back(value(id).type);
  }
  return types;
}

ValueId Graph::add_value(Value value) {
  if (values_.size() >= kNoValue) throw Error(ErrorCode::kUnsupported, "more than 4294967294 values in a graph");
  value.cached_hash = {};
  values_.push_back(std::make_shared<const Value>(std::move(value)));
  return static_cast<ValueId>(values_.size() - 1);
}

void Graph::set_value(ValueId id, Value value) {
  value.cached_hash = {};
  values_.at(id) = std::make_shared<const Value>(std::move(value));
}

ValueId Graph::add_input(std::string name, TensorType type) {
  Value value;
  value.name = std::move(name);
  value.type = std::move(type);
  ValueId id = add_value(std::move(value));
  inputs_.push_back(id);
  return id;
}

ValueId Graph::add_constant(Tensor tensor, std::string name) {
  Value value;
  value.name = std::move(name);
  value.type = {tensor.type(), to_indices(tensor.sizes())};
  value.contents = constant_contents(tensor);
  value.constant = std::move(tensor);
  return add_value(std::move(value));
}

void Graph::set_constant(ValueId id, Tensor tensor) {
  Value changed = *values_.at(id);
  changed.type = {tensor.type(), to_indices(tensor.sizes())};
  changed.shape_known = true;
  changed.contents = constant_contents(tensor);
  changed.constant = std::move(tensor);
  set_value(id, std::move(changed));
}

std::vector<ValueId> Graph::add_node(const Operator& op, Attributes attributes, std::vector<ValueId> inputs,
                                     std::vector<std::string> output_names) {
  while (!inputs.empty() && inputs.back() == kNoValue) inputs.pop_back();
  Node node;
  node.op = &op;
  node.inputs = std::move(inputs);
  const auto count = static_cast<int>(node.inputs.size());
  if (count < op.min_inputs() || count > op.max_inputs())
    throw Error(ErrorCode::kBadInput, op.name() + " has " + std::to_string(count) + " inputs, expected " +
                                          (op.min_inputs() == op.max_inputs() ? std::to_string(op.min_inputs())
                                           : op.max_inputs() == kVariadic
                                               ? "at least " + std::to_string(op.min_inputs())
                                               : std::to_string(op.min_inputs()) + " to " + std::to_string(op.max_inputs())));
  for (ValueId id : node.inputs)
    if (id != kNoValue && !value(id).shape_known)
      throw Error(ErrorCode::kUnsupported, "the shape of input " + value(id).name + " is not known", op.name());

  const auto operands = operand_types(node);
  const Inputs typed = Inputs::of(std::span(operands)).types_only();
  node.attributes = op.normalized(std::move(attributes), typed);
  const Definition definition = op.define(node.attributes, typed);
  require_meaning_on_texts(op, node.attributes, operands);

  bool follow_contents = false;
  for (const Output& output : definition.outputs()) follow_contents = follow_contents || may_have_contents(output.type);
  std::vector<std::optional<Indices>> contents;
  if (follow_contents && !op.random()) {
    std::vector<std::optional<Indices>> known;
    for (ValueId id : node.inputs) known.push_back(id == kNoValue ? std::nullopt : value(id).contents);
    contents = known_contents(op, node.attributes, input_types(node), known, kContentsLimit);
  }

  for (std::size_t i = 0; i < definition.outputs().size(); ++i) {
    Value output;
    if (i < output_names.size()) output.name = std::move(output_names[i]);
    output.type = definition.outputs()[i].type;
    if (i < contents.size()) output.contents = std::move(contents[i]);
    node.outputs.push_back(add_value(std::move(output)));
  }
  std::vector<ValueId> outputs = node.outputs;
  add_raw(std::move(node));
  return outputs;
}

void Graph::add_raw(Node node) { nodes_.push_back(std::make_shared<const Node>(std::move(node))); }

void Graph::drop_nodes_from(std::size_t count) { nodes_.resize(std::min(count, nodes_.size())); }

void Graph::drop_unused_values() {
  std::vector<ValueId> number(values_.size(), kNoValue);
  const auto use = [&](std::span<const ValueId> values) {
    for (const ValueId v : values)
      if (v != kNoValue) number[v] = 0;
  };
  use(inputs_);
  for (const GraphOutput& output : outputs_) use({&output.value, 1});
  for (const auto& node : nodes_) use(node->inputs), use(node->parameters), use(node->outputs);
  ValueId count = 0;
  for (ValueId v = 0; v < number.size(); ++v) {
    if (number[v] == kNoValue) continue;
    number[v] = count;
    values_[count++] = std::move(values_[v]);
  }
  if (count == values_.size()) return;
  values_.resize(count);
  const auto renumber = [&](std::span<ValueId> values) {
    for (ValueId& v : values)
      if (v != kNoValue) v = number[v];
  };
  renumber(inputs_);
  for (GraphOutput& output : outputs_) output.value = number[output.value];
  for (auto& node : nodes_) {
    auto changed = std::make_shared<Node>(*node);
    renumber(changed->inputs), renumber(changed->parameters), renumber(changed->outputs);
    node = std::move(changed);
  }
}

void Graph::add_output(std::string name, ValueId id) {
  const Value& v = value(id);
  outputs_.push_back({std::move(name), id, v.type, v.shape_known});
}

void Graph::replace_uses(ValueId from, ValueId to) {
  const std::pair<ValueId, ValueId> one[] = {{from, to}};
  replace_uses(one);
}

void Graph::replace_uses(std::span<const std::pair<ValueId, ValueId>> replacements) {
  std::unordered_map<ValueId, ValueId> direct(replacements.begin(), replacements.end());
  std::unordered_map<ValueId, ValueId> target;
  for (const auto& [from, to] : direct) {
    ValueId end = to;
    for (std::size_t step = 0;; ++step) {
      auto next = direct.find(end);
      if (next == direct.end() || next->second == end) break;
      if (step > direct.size()) throw Error(ErrorCode::kUsage, "replacements of values go round in a circle");
      end = next->second;
    }
    if (end != from) target.emplace(from, end);
  }
  for (const auto& [from, unused] : replacements) {
    auto to = target.find(from);
    if (to == target.end() || !value(to->second).name.empty() || value(from).name.empty()) continue;
    auto named = std::make_shared<Value>(value(to->second));
    named->name = value(from).name;
    values_[to->second] = std::move(named);
  }
  auto touched = [&](const std::vector<ValueId>& ids) {
    return std::any_of(ids.begin(), ids.end(), [&](ValueId id) { return target.contains(id); });
  };
  auto replace = [&](ValueId& id) {
    if (auto to = target.find(id); to != target.end()) id = to->second;
  };
  for (auto& node : nodes_) {
    if (!touched(node->inputs) && !touched(node->parameters)) continue;
    auto changed = std::make_shared<Node>(*node);
    for (ValueId& id : changed->inputs) replace(id);
    for (ValueId& id : changed->parameters) replace(id);
    node = std::move(changed);
  }
  for (GraphOutput& output : outputs_) replace(output.value);
}

}  // namespace rewright::graph
