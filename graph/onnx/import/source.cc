#include "graph/onnx/import/source.h"

#include <algorithm>
#include <set>

#include "graph/sizes.h"
#include "operators/readings/divisors.h"
#include "operators/readings/interpreter.h"

namespace rewright::graph {

namespace {

// Import evaluates only constants that shapes and parameters depend on.
constexpr std::int64_t kSmall = 1024;

// Is it cheap to evaluate, and defined? A small tensor may still need a reduction over a large padded window.
bool is_evaluated(const Operator& op, const Attributes& attributes, const std::vector<std::optional<TensorType>>& types,
                  const std::vector<Tensor>& operands) {
  constexpr std::int64_t kFew = 10'000'000;
  const Definition definition = op.define(attributes, Inputs::of(std::span(types)));
  for (const Output& output : definition.outputs()) {
    if (!output.element) continue;
    const Index count = product(output.type.shape) * operation_count(output.element);
    if (!count.is_constant() || count.value() > kFew) return false;
  }
  const std::set<std::size_t> divisors = integer_divisors(definition);
  return std::none_of(divisors.begin(), divisors.end(), [&](std::size_t k) {
    const std::vector<std::int64_t> numbers = operands.at(k).integers();
    return std::find(numbers.begin(), numbers.end(), 0) != numbers.end();
  });
}

}  // namespace

NodeSource::NodeSource(Graph& graph, KnownTensors& known, const onnx::NodeProto& proto, int opset, std::vector<ValueId> inputs,
                       std::function<bool(const std::string&)> is_of_input)
    : NodeAttributes(proto),
      graph_(graph),
      known_(known),
      opset_(opset),
      inputs_(std::move(inputs)),
      is_of_input_(std::move(is_of_input)) {
  for (const std::string& output : proto.output()) output_count_ += !output.empty();
}

const onnx::AttributeProto* find_attribute(const onnx::NodeProto& node, std::string_view name,
                                           onnx::AttributeProto::AttributeType type) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() != name) continue;
    if (attribute.has_type() && attribute.type() != type)
      throw Error(ErrorCode::kBadInput, "its attribute \"" + std::string(name) + "\" is of type " +
                                            onnx::AttributeProto::AttributeType_Name(attribute.type()) + ", expected " +
                                            onnx::AttributeProto::AttributeType_Name(type));
    return &attribute;
  }
  return nullptr;
}

const TensorType& NodeSource::type_of(OnnxValue value) const {
  if (value == kAbsent) throw Error(ErrorCode::kBadInput, "a required input is missing");
  return graph_.value(to_id(value)).type;
}

std::optional<Indices> NodeSource::contents(OnnxValue value) const {
  if (value == kAbsent) return std::nullopt;
  return graph_.value(to_id(value)).contents;
}

bool NodeSource::never_empty(const Index& size) const {
  const std::set<std::string> symbols = symbols_of(Indices{size});
  return std::all_of(symbols.begin(), symbols.end(), is_of_input_);
}

std::optional<Tensor> NodeSource::constant_value(OnnxValue value) const {
  if (value == kAbsent) return std::nullopt;
  if (graph_.is_constant(to_id(value))) return graph_.value(to_id(value)).constant;
  if (auto known = known_.find(to_id(value)); known != known_.end()) return known->second;
  return std::nullopt;
}

std::vector<OnnxValue> NodeSource::node(const Operator& op, Attributes attributes, std::vector<OnnxValue> inputs) {
  std::vector<ValueId> ids;
  for (OnnxValue input : inputs) ids.push_back(to_id(input));
  note_assumed(op, attributes, ids);
  const std::vector<ValueId> outputs = graph_.add_node(op, std::move(attributes), std::move(ids));
  evaluate(op, *graph_.nodes().back());
  std::vector<OnnxValue> values;
  for (ValueId id : outputs) values.push_back(to_onnx(id));
  return values;
}

OnnxValue NodeSource::constant(Tensor tensor) { return to_onnx(graph_.add_constant(std::move(tensor))); }

namespace {

using Types = std::vector<std::optional<TensorType>>;

// The conditions for a node to be well-typed that are not decided.
std::vector<Condition> open_conditions(const Operator& op, const Attributes& attributes, const Types& types) {
  std::vector<Condition> conditions;
  const Definition definition = op.define(attributes, Inputs::of(std::span(types)).types_only());
  for (const Requirement& r : definition.requirements()) conditions.push_back(r.condition);
  return conditions;
}

bool is_among(const std::vector<Condition>& all, const Condition& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

// If this size is 1, is the node well-typed for any value of the other size?
bool repeats(const Operator& op, const Attributes& attributes, Types types, const Index& size, const Condition& condition,
             const std::vector<Condition>& open) {
  for (auto& type : types)
    if (type) std::replace(type->shape.begin(), type->shape.end(), size, Index(1));
  try {
    const std::vector<Condition> left = open_conditions(op, attributes, types);
    return std::all_of(left.begin(), left.end(), [&](const Condition& c) { return !(c == condition) && is_among(open, c); });
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void NodeSource::note_assumed(const Operator& op, const Attributes& attributes, const std::vector<ValueId>& inputs) {
  Types types;
  bool open_sizes = false;
  for (const ValueId id : inputs) {
    types.push_back(id == kNoValue ? std::nullopt : std::optional(graph_.value(id).type));
    open_sizes = open_sizes || (id != kNoValue && !all_constant(graph_.value(id).type.shape));
  }
  if (!open_sizes) return;
  std::vector<Condition> open;
  try {  // unnormalized: normalizing an Expand would already decide this
    open = open_conditions(op, attributes, types);
  } catch (const Error&) {
    return;  // the attributes require no equal sizes
  }
  for (const Condition& c : open) {
    if (c.relation != Condition::Relation::kEqual || c.left.is_constant() || c.right.is_constant()) continue;
    if (repeats(op, attributes, types, c.left, c, open) || repeats(op, attributes, types, c.right, c, open))
      assumed_.push_back(c);
  }
}

void NodeSource::evaluate(const Operator& op, const Node& node) {
  if (op.random()) return;
  auto is_small = [](const TensorType& type) {
    if (!all_constant(type.shape)) return false;
    std::int64_t count = 1;
    for (const Index& size : type.shape)
      if ((count *= size.value()) > kSmall || count < 0) return false;
    return true;
  };
  std::vector<Tensor> operands;
  for (ValueId id : node.inputs) {
    const auto tensor = id == kNoValue ? Tensor() : constant_value(to_onnx(id));
    if (!tensor || tensor->size() > kSmall) return;
    operands.push_back(*tensor);
  }
  for (ValueId id : node.outputs)
    if (!is_small(graph_.value(id).type)) return;
  for (const AttributeValue& attribute : node.attributes) {
    if (const auto* index = std::get_if<Index>(&attribute); index != nullptr && !index->is_constant()) return;
    if (const auto* list = std::get_if<Indices>(&attribute); list != nullptr && !all_constant(*list)) return;
  }
  std::vector<Tensor> results;
  try {
    if (!is_evaluated(op, node.attributes, graph_.operand_types(node), operands)) return;
    results = interpret(op, node.attributes, operands);
  } catch (const Error&) {
    return;  // execution of the model computes it instead
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId id = node.outputs[i];
    Value value = graph_.value(id);
    if (!value.contents && (is_integer(value.type.type) || value.type.type == DataType::kBool)) {
      value.contents = to_indices(results[i].integers());
      graph_.set_value(id, std::move(value));
    }
    known_[id] = std::move(results[i]);
  }
}

}  // namespace rewright::graph
