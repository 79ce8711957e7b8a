#include "operators/contrib/contrib.h"

#include <utility>

namespace rewright::operators {

const ContribGraph* find_contrib(std::string_view domain, std::string_view type) {
  static const ContribOperators kAll = [] {
    ContribOperators c;
    register_contrib_activation(c);
    register_contrib_attention(c);
    register_contrib_blocked_layout(c);
    register_contrib_experts(c);
    register_contrib_gates(c);
    register_contrib_grouped_attention(c);
    register_contrib_learned(c);
    register_contrib_linear_attention(c);
    register_contrib_normalization(c);
    register_contrib_packed_weights(c);
    register_contrib_product(c);
    register_contrib_quantized(c);
    register_contrib_selection(c);
    register_contrib_trees(c);
    return c;
  }();
  return kAll.find(domain, type);
}

void ContribNode::require(bool holds, const std::string& what) {
  if (!holds) throw Error(ErrorCode::kBadInput, what);
}

void ContribNode::require_equal(const Index& size, const Index& other, const std::string& what) {
  require(!size.is_constant() || !other.is_constant() || size == other,
          what + " is " + size.to_string() + ", must be " + other.to_string());
}

ValueId ContribNode::input(std::size_t i) const {
  require(has(i), "its input " + std::to_string(i) + " is missing");
  return b.input(i);
}

void ContribNode::require_rank(std::size_t i, std::size_t rank) const {
  require(shape(i).size() == rank, "its input " + std::to_string(i) + " has rank " + std::to_string(shape(i).size()) +
                                       ", must be " + std::to_string(rank));
}

std::optional<std::vector<std::int64_t>> ContribNode::known_integers(std::size_t i, const std::string& what,
                                                                     std::string& reason) const {
  if (const auto known = has(i) ? source.contents(source.input(i)) : std::nullopt; known && all_constant(*known)) {
    std::vector<std::int64_t> values;
    for (const Index& value : *known) values.push_back(value.value());
    return values;
  }
  reason = what + " is not known when the model is read";
  return std::nullopt;
}

std::int64_t ContribNode::positive(std::string_view attribute) const {
  const std::int64_t value = source.integer(attribute, 0);
  require(value > 0, std::string(attribute) + " is " + std::to_string(value) + ", must be positive");
  return value;
}

ValueId ContribNode::entries(ValueId v, std::size_t axis, const Index& first, const Index& length) {
  Indices begin(b.shape_of(v).size(), 0), sizes = b.shape_of(v);
  require(axis < sizes.size(), "an operand has " + std::to_string(sizes.size()) + " axes, too few");
  if (first == Index(0) && length == sizes[axis]) return v;
  begin[axis] = first, sizes[axis] = length;
  return b.add("Slice", {v}, {{"begin", begin}, {"length", sizes}});
}

ValueId ContribNode::joined(std::vector<ValueId> parts, std::size_t axis) {
  return parts.size() == 1 ? parts[0] : b.add("Concat", std::move(parts), {{"axis", Index(axis)}});
}

ValueId ContribNode::swapped(ValueId v, std::size_t axis, std::size_t other) {
  Indices perm;
  for (std::size_t a = 0; a < b.shape_of(v).size(); ++a) perm.emplace_back(a);
  require(axis < perm.size() && other < perm.size(), "an operand has " + std::to_string(perm.size()) + " axes, too few");
  std::swap(perm[axis], perm[other]);
  return b.transposed(v, perm);
}

ValueId ContribNode::range(const Index& count) {
  return b.add("Range", {}, {{"start", Index(0)}, {"delta", Index(1)}, {"count", count}, {"type", DataType::kInt64}});
}

ValueId ContribNode::channels_first(ValueId v) {
  const std::size_t rank = b.shape_of(v).size();
  require(rank >= 3, "an operand has " + std::to_string(rank) + " axes, at least 3 are needed");
  Indices perm{0, Index(rank - 1)};
  for (std::size_t a = 1; a + 1 < rank; ++a) perm.emplace_back(a);
  return b.transposed(v, perm);
}

ValueId ContribNode::channels_last(ValueId v) {
  const std::size_t rank = b.shape_of(v).size();
  Indices perm{0};
  for (std::size_t a = 2; a < rank; ++a) perm.emplace_back(a);
  perm.emplace_back(1);
  return b.transposed(v, perm);
}

std::optional<ValueId> ContribNode::activation(const std::string& name, ValueId v, const std::vector<double>& parameters) {
  const auto parameter = [&](std::size_t i, double otherwise) { return i < parameters.size() ? parameters[i] : otherwise; };
  if (name.empty()) return v;
  for (const char* plain : {"Relu", "Sigmoid", "Tanh", "Softsign", "Softplus", "HardSwish"})
    if (name == plain) return b.add(name, {v});
  if (name == "LeakyRelu" || name == "ThresholdedRelu" || name == "Elu")
    return b.add(name, {v}, {{"alpha", Real(parameter(0, name == "LeakyRelu" ? 0.01f : 1))}});
  if (name == "HardSigmoid") return b.add(name, {v}, {{"alpha", Real(parameter(0, 0.2f))}, {"beta", Real(parameter(1, 0.5))}});
  if (name == "Gelu" || name == "FastGelu")
    return b.add("Gelu", {v}, {{"approximate", std::string(name == "Gelu" ? "none" : "tanh")}});
  if (name == "Clip" && parameters.size() == 2) return Formulas(b, b.type_of(v).type).clamped(v, parameters[0], parameters[1]);
  return std::nullopt;
}

}  // namespace rewright::operators
