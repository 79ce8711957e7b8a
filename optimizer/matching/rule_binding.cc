#include "optimizer/matching/rule_binding.h"

#include <algorithm>
#include <set>
#include <vector>

#include "expressions/exact_number.h"
#include "operators/readings/interpreter.h"

namespace rewright::optimizer {

namespace {

// Does a literal count axes from the back? Attributes of graphs are normalized and count from the front.
bool counts_from_back(const rules::Expression& e) {
  if (e.kind != rules::Expression::Kind::kValue) return false;
  const auto negative = [](const Index& i) { return i.constant().value_or(0) < 0; };
  if (const Index* index = std::get_if<Index>(&e.value)) return negative(*index);
  const Indices* list = std::get_if<Indices>(&e.value);
  return list && std::all_of(list->begin(), list->end(), [](const Index& i) { return i.is_constant(); }) &&
         std::any_of(list->begin(), list->end(), negative);
}

// The types of what the source's node `p` reads.
std::vector<TensorType> types_read(const Rule& rule, std::span<const TensorType* const> inputs,
                                   std::span<const Attributes* const> attributes, std::uint32_t p) {
  std::vector<TensorType> types;
  for (const PatternValue& value : rule.source.nodes[p].inputs) {
    if (value.kind == PatternValue::Kind::kInput) types.push_back(*inputs[value.number]);
    if (value.kind != PatternValue::Kind::kNode) continue;
    const std::vector<TensorType> below = types_read(rule, inputs, attributes, value.number);
    const Definition definition = rule.source.nodes[value.number].op->define(
        *attributes[value.number], Inputs::of(std::span<const TensorType>(below)).types_only());
    types.push_back(definition.outputs().at(value.output).type);
  }
  return types;
}

bool equal_from_back(const Rule& rule, std::span<const TensorType* const> inputs, std::span<const Attributes* const> attributes,
                     std::uint32_t p, std::size_t field) {
  const PatternNode& pattern = rule.source.nodes[p];
  Attributes written = *attributes[p];
  written[field] = pattern.attributes[field].value;
  try {
    const std::vector<TensorType> types = types_read(rule, inputs, attributes, p);
    const Inputs read = Inputs::of(std::span<const TensorType>(types)).types_only();
    return pattern.op->normalized(std::move(written), read).at(field) == (*attributes[p])[field];
  } catch (const Error&) {
    return false;
  }
}

// Are all elements equal, and could a Fill create them?
bool all_equal(const Tensor& tensor) {
  const std::size_t size = byte_size(tensor.type());
  const std::span<const std::byte> bytes = tensor.bytes();
  if (size == 0 || bytes.size() < size || !fits_real(tensor)) return false;
  return std::equal(bytes.begin() + static_cast<std::ptrdiff_t>(size), bytes.end(), bytes.begin());
}

// The tensors that operators without inputs create repeat a few numbers. Weights do not, and need not be compared as a whole.
bool repeats_numbers(const Tensor& tensor) {
  constexpr std::size_t kLooked = 64, kDifferent = 4;
  const std::size_t size = byte_size(tensor.type());
  const std::span<const std::byte> bytes = tensor.bytes();
  if (size == 0 || bytes.empty()) return false;
  std::set<std::vector<std::byte>> seen;
  for (std::size_t at = 0; at + size <= std::min(bytes.size(), kLooked * size); at += size)
    seen.emplace(bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.begin() + static_cast<std::ptrdiff_t>(at + size));
  return seen.size() <= kDifferent;
}

std::optional<Attributes> creating_attributes(const Operator& op, const Tensor& tensor) {
  if (op.random() || op.max_inputs() != 0 || !(op.is_fill() ? all_equal(tensor) : repeats_numbers(tensor))) return std::nullopt;
  Attributes attributes = op.defaults();
  for (AttributeValue& attribute : attributes) {
    if (std::holds_alternative<Index>(attribute) && !tensor.sizes().empty()) attribute = Index(tensor.sizes()[0]);
    if (std::holds_alternative<Indices>(attribute)) attribute = to_indices(tensor.sizes());
    if (std::holds_alternative<Real>(attribute)) attribute = Real(tensor.reals().at(0));
    if (std::holds_alternative<DataType>(attribute)) attribute = tensor.type();
  }
  if (op.is_fill()) return attributes;
  try {
    const Definition definition = op.define(attributes, Inputs::of(std::span<const TensorType>()).types_only());
    const TensorType& type = definition.outputs().at(0).type;
    if (type.type != tensor.type() || type.shape != to_indices(tensor.sizes())) return std::nullopt;
    return interpret(op, attributes, {}).at(0) == tensor ? std::optional(std::move(attributes)) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;  // ill-typed with these attributes
  }
}

}  // namespace

std::shared_ptr<const Bindings> bind_rule(const Rule& rule, std::span<const TensorType* const> inputs,
                                          std::span<const Attributes* const> attributes) {
  auto bindings = std::make_shared<Bindings>(rule);
  for (std::size_t i = 0; i < rule.inputs.size(); ++i)
    if (is_empty(*inputs[i]) || !bindings->bind_input(i, *inputs[i])) return nullptr;
  for (std::size_t p = 0; p < rule.source.nodes.size(); ++p) {
    const PatternNode& pattern = rule.source.nodes[p];
    for (std::size_t f = 0; f < pattern.attributes.size(); ++f)
      if (counts_from_back(pattern.attributes[f]) ? !equal_from_back(rule, inputs, attributes, static_cast<std::uint32_t>(p), f)
                                                  : !bindings->bind_attribute(pattern.attributes[f], (*attributes[p])[f]))
        return nullptr;
  }
  return bindings->complete() ? bindings : nullptr;
}

bool is_empty(const TensorType& type) {
  return std::any_of(type.shape.begin(), type.shape.end(), [](const Index& size) { return size.constant() == 0; });
}

const Attributes* Creations::attributes(const Operator& op, const Tensor& tensor) {
  const auto [found, is_new] = answers_.try_emplace({&op, tensor.bytes().data()});
  Answer& answer = found->second;
  if (is_new) answer = {tensor, creating_attributes(op, tensor)};
  return answer.attributes ? &*answer.attributes : nullptr;
}

}  // namespace rewright::optimizer
