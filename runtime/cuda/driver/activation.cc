#include "runtime/cuda/driver/activation.h"

#include <algorithm>
#include <vector>

namespace rewright::cuda {

namespace {

using Kind = ElementNode::Kind;

bool commutes(Kind kind) {
  return kind == Kind::kAdd || kind == Kind::kMultiply || kind == Kind::kMaximum || kind == Kind::kMinimum;
}

// Are the expressions equal up to the order of commutative operands and the rounding of constants to float? They may only read
// operand 0.
bool same(const Element& a, const Element& b) {
  if (a->kind != b->kind || a->scalar != b->scalar || a->function != b->function || a->arguments.size() != b->arguments.size())
    return false;
  switch (a->kind) {
    case Kind::kConstant:
      return a->scalar == Scalar::kReal ? a->real.symbol.empty() && b->real.symbol.empty() &&
                                              static_cast<float>(a->real.value) == static_cast<float>(b->real.value)
                                        : a->integer == b->integer;
    case Kind::kRead:
      return a->operand == 0 && b->operand == 0 && !a->zero_outside && !b->zero_outside;
    case Kind::kReduce:
    case Kind::kChoose:
    case Kind::kFromIndex:
      return false;
    default:
      break;
  }
  if (std::equal(a->arguments.begin(), a->arguments.end(), b->arguments.begin(), same)) return true;
  return commutes(a->kind) && same(a->arguments[0], b->arguments[1]) && same(a->arguments[1], b->arguments[0]);
}

// The constant operand of a binary operation, and the other operand.
std::optional<std::pair<double, Element>> beside_constant(const Element& e, Kind kind) {
  if (e->kind != kind || e->scalar != Scalar::kReal) return std::nullopt;
  for (std::size_t side = 0; side < 2; ++side)
    if (const Element& c = e->arguments[side]; c->kind == Kind::kConstant && c->real.symbol.empty())
      return std::pair(c->real.value, e->arguments[1 - side]);
  return std::nullopt;
}

}  // namespace

ActivationNode activation_node(Activation activation, double low, double high) {
  const auto node = [](std::string_view name) {
    const Operator& op = registry().get(name);
    return ActivationNode{&op, op.defaults(), {}};
  };
  switch (activation) {
    case Activation::kSilu:
      return node("Swish");
    case Activation::kSigmoid:
      return node("Sigmoid");
    case Activation::kGelu: {
      ActivationNode gelu = node("Gelu");
      gelu.attributes.at(gelu.op->field("approximate").value()) = std::string("tanh");
      return gelu;
    }
    case Activation::kClip: {
      ActivationNode clip = node("Clip");
      clip.bounds = {low, high};
      return clip;
    }
    default:
      return node("Relu");
  }
}

Element activated(Activation activation, double low, double high, const Element& x) {
  if (activation == Activation::kNone) return x;
  const ActivationNode node = activation_node(activation, low, high);
  std::vector<std::optional<TensorType>> types(1 + node.bounds.size(), TensorType{DataType::kFloat, {}});
  const Definition definition = node.op->define(node.attributes, Inputs::of(std::span<const std::optional<TensorType>>(types)));
  return rewrite(definition.outputs()[0].element,
                 [&](const ElementNode& read) {
                   return read.operand == 0 ? x : real(node.bounds[static_cast<std::size_t>(read.operand) - 1]);
                 },
                 {});
}

std::optional<FoundActivation> find_activation(const Element& element) {
  if (element->scalar != Scalar::kReal) return std::nullopt;
  const Operand operand(0, {DataType::kFloat, {}});
  const Element x = operand({});
  const auto is = [&](FoundActivation a) { return same(element, activated(a.activation, a.low, a.high, x)); };
  for (const Activation a : {Activation::kRelu, Activation::kGelu, Activation::kSilu, Activation::kSigmoid})
    if (is({a})) return FoundActivation{a};
  const auto outer = beside_constant(element, Kind::kMinimum);
  const auto inner = outer ? beside_constant(outer->second, Kind::kMaximum) : std::nullopt;
  if (!inner) return std::nullopt;
  const FoundActivation clip{Activation::kClip, inner->first, outer->first};
  return is(clip) ? std::optional(clip) : std::nullopt;
}

}  // namespace rewright::cuda
