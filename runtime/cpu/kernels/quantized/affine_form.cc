#include "runtime/cpu/kernels/quantized/affine_form.h"

#include <algorithm>
#include <cmath>

#include "runtime/cpu/kernels/epilogue.h"

namespace rewright::cpu {

namespace {

using Kind = ElementNode::Kind;
using Numbers = std::vector<double>;

template <class F>
Numbers combined(const Numbers& a, const Numbers& b, F f) {
  Numbers result(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = f(a[a.size() == 1 ? 0 : i], b[b.size() == 1 ? 0 : i]);
  return result;
}
Numbers sum(const Numbers& a, const Numbers& b) {
  return combined(a, b, [](double x, double y) { return x + y; });
}
bool is_integer_of_8_bits(DataType type) { return type == DataType::kInt8 || type == DataType::kUint8; }

class Reader {
 public:
  explicit Reader(const AffineQuestion& question) : q_(question) {}

  std::optional<AffineForm> read(const Element& e) const {
    switch (e->kind) {
      case Kind::kConstant:
        return e->scalar == Scalar::kReal ? real_number(*e) : number(static_cast<double>(e->integer));
      case Kind::kRead:
        return read_operand(*e);
      case Kind::kAdd:
        return both(*e, [&](const AffineForm& a, const AffineForm& b) { return added(a, b); });
      case Kind::kMultiply:
        return both(*e,
                    [&](const AffineForm& a, const AffineForm& b) { return b.terms.empty() ? scaled(a, b) : scaled(b, a); });
      case Kind::kDivide:
        if (e->scalar != Scalar::kReal) return std::nullopt;
        return both(*e, [&](const AffineForm& a, AffineForm b) -> std::optional<AffineForm> {
          if (!b.terms.empty()) return std::nullopt;
          return scaled(a, b, true);
        });
      case Kind::kMaximum:
      case Kind::kMinimum:
        return both(*e, [&](const AffineForm& a, const AffineForm& b) {
          return b.terms.empty() ? limited(a, b, e->kind == Kind::kMaximum) : limited(b, a, e->kind == Kind::kMaximum);
        });
      case Kind::kApply:
        if (e->function == &functions::nearest_float) return nearest(read(e->arguments[0]));
        return of_constant(*e);
      case Kind::kConvert:
        // Conversion to an integer only if nothing is rounded.
        if (e->scalar == Scalar::kReal || e->arguments[0]->scalar == Scalar::kInteger) return read(e->arguments[0]);
        return std::nullopt;
      default:
        return std::nullopt;
    }
  }

 private:
  static std::optional<AffineForm> number(double value) {
    AffineForm result;
    result.constant = {value};
    return result;
  }
  static std::optional<AffineForm> real_number(const ElementNode& e) {
    if (!e.real.symbol.empty()) return std::nullopt;
    return number(e.real.value);
  }

  std::optional<AffineForm> read_operand(const ElementNode& e) const {
    const ValueId value = q_.operands[static_cast<std::size_t>(e.operand)];
    if (q_.is_variable(e.operand)) {
      if (!at_result_position(e, q_.position, q_.sizes) || e.zero_outside || q_.planner.info(value).sizes != q_.sizes)
        return std::nullopt;
      AffineForm result;
      result.terms.push_back({e.operand, {1.0}});
      return result;
    }
    const Tensor& t = q_.planner.constant(value);
    if (!t || t.size() == 0 || e.zero_outside) return std::nullopt;
    if (t.size() == 1) return number(t.reals()[0]);
    if (q_.axis >= q_.position.size() || t.size() != q_.sizes[q_.axis]) return std::nullopt;
    for (std::size_t a = 0; a < e.position.size(); ++a)
      if (t.sizes()[a] != 1 && !(e.position[a] == q_.position[q_.axis])) return std::nullopt;
    AffineForm result;
    result.constant = t.reals();
    return result;
  }

  template <class F>
  std::optional<AffineForm> both(const ElementNode& e, F f) const {
    const auto a = read(e.arguments[0]);
    if (!a) return std::nullopt;
    const auto b = read(e.arguments[1]);
    if (!b) return std::nullopt;
    return f(*a, *b);
  }

  static std::optional<AffineForm> added(AffineForm a, AffineForm b) {
    if (b.bounded()) std::swap(a, b);
    if (a.bounded()) {
      if (!b.terms.empty() || b.bounded() || b.constant.size() != 1) return std::nullopt;
      a.low += b.constant[0];
      a.high += b.constant[0];
    }
    for (AffineForm::Term& t : b.terms) {
      const auto same = std::find_if(a.terms.begin(), a.terms.end(), [&](const auto& s) { return s.operand == t.operand; });
      if (same == a.terms.end())
        a.terms.push_back(std::move(t));
      else
        same->factor = sum(same->factor, t.factor);
    }
    a.constant = sum(a.constant, b.constant);
    return a;
  }

  static std::optional<AffineForm> scaled(AffineForm a, const AffineForm& by, bool divided = false) {
    if (!by.terms.empty() || by.bounded()) return std::nullopt;
    const auto f = [&](double x, double y) { return divided ? x / y : x * y; };
    if (a.bounded()) {
      if (by.constant.size() != 1 || by.constant[0] == 0) return std::nullopt;
      a.low = f(a.low, by.constant[0]);
      a.high = f(a.high, by.constant[0]);
      if (a.low > a.high) std::swap(a.low, a.high);
    }
    for (AffineForm::Term& t : a.terms) t.factor = combined(t.factor, by.constant, f);
    a.constant = combined(a.constant, by.constant, f);
    return a;
  }

  static std::optional<AffineForm> limited(AffineForm a, const AffineForm& bound, bool from_below) {
    if (!bound.terms.empty() || bound.constant.size() != 1 || bound.bounded() || std::isnan(bound.constant[0]))
      return std::nullopt;
    const double b = bound.constant[0];
    if (a.terms.empty() && !a.bounded()) {
      for (double& c : a.constant) c = from_below ? std::max(c, b) : std::min(c, b);
      return a;
    }
    if (from_below) {
      a.low = std::max(a.low, b);
      a.high = std::max(a.high, b);
    } else {
      a.low = std::min(a.low, b);
      a.high = std::min(a.high, b);
    }
    return a;
  }

  // A function of known numbers, as in batch normalization.
  std::optional<AffineForm> of_constant(const ElementNode& e) const {
    if (e.function->arity != 1 || e.function->real == nullptr || e.scalar != Scalar::kReal) return std::nullopt;
    auto a = read(e.arguments[0]);
    if (!a || !a->terms.empty() || a->bounded()) return std::nullopt;
    for (double& c : a->constant) c = e.function->real(&c);
    return a;
  }

  static std::optional<AffineForm> nearest(std::optional<AffineForm> a) {
    if (a && a->terms.empty())
      for (double& c : a->constant) c = static_cast<double>(static_cast<float>(c));
    return a;
  }

  const AffineQuestion& q_;
};

// A constant, possibly converted.
std::optional<double> constant_of(const Element& e) {
  if (e->kind == Kind::kConvert) return constant_of(e->arguments[0]);
  if (e->kind != Kind::kConstant) return std::nullopt;
  if (e->scalar != Scalar::kReal) return static_cast<double>(e->integer);
  return e->real.symbol.empty() ? std::optional(e->real.value) : std::nullopt;
}

// The argument that is not constant, and the constant one.
std::optional<std::pair<Element, double>> with_constant(const Element& e) {
  for (std::size_t side = 0; side < 2; ++side)
    if (const auto c = constant_of(e->arguments[side])) return std::pair(e->arguments[1 - side], *c);
  return std::nullopt;
}

}  // namespace

bool AffineForm::bounded() const { return std::isfinite(low) || std::isfinite(high); }

const AffineForm::Term* AffineForm::term(int operand) const {
  for (const Term& t : terms)
    if (t.operand == operand) return &t;
  return nullptr;
}

std::optional<AffineForm> affine_form(const AffineQuestion& question) {
  auto form = Reader(question).read(question.element);
  if (!form) return std::nullopt;
  const auto finite = [](const Numbers& numbers) {
    return std::all_of(numbers.begin(), numbers.end(), [](double v) { return std::isfinite(v); });
  };
  if (!finite(form->constant)) return std::nullopt;
  for (const AffineForm::Term& t : form->terms)
    if (!finite(t.factor)) return std::nullopt;
  return form;
}

std::optional<RoundedForm> rounded_form(const Element& element) {
  if (element->kind != Kind::kConvert || element->scalar != Scalar::kInteger) return std::nullopt;
  RoundedForm result;
  bool has_low = false, has_high = false;
  Element e = element->arguments[0];
  while (e->kind == Kind::kMaximum || e->kind == Kind::kMinimum) {
    const auto limit = with_constant(e);
    if (!limit) return std::nullopt;
    const bool is_low = e->kind == Kind::kMaximum;
    bool& known = is_low ? has_low : has_high;
    if (known) return std::nullopt;
    known = true;
    (is_low ? result.low : result.high) = static_cast<std::int64_t>(limit->second);
    e = limit->first;
  }
  if (!has_low || !has_high) return std::nullopt;
  if (e->kind == Kind::kAdd) {
    const auto zero_point = with_constant(e);
    if (!zero_point) return std::nullopt;
    result.zero_point = static_cast<std::int64_t>(zero_point->second);
    e = zero_point->first;
  }
  if (e->kind != Kind::kApply || e->function != &functions::round_even) return std::nullopt;
  result.inner = e->arguments[0];
  return result;
}

std::optional<Dequantized> match_dequantized(const Planner& planner, const Node& node, std::size_t axis) {
  if (node.op == nullptr || node.outputs.size() != 1) return std::nullopt;
  int source = -1;
  const Sizes& sizes = planner.info(node.outputs[0]).sizes;
  for (std::size_t i = 0; i < node.inputs.size() && source < 0; ++i)
    if (node.inputs[i] != kNoValue && is_integer_of_8_bits(planner.info(node.inputs[i]).type) &&
        planner.info(node.inputs[i]).sizes == sizes)
      source = static_cast<int>(i);
  if (source < 0 || planner.info(node.outputs[0]).type != DataType::kFloat) return std::nullopt;
  const Definition& definition = planner.define(node);
  if (!definition.has_denotation()) return std::nullopt;
  const Output& output = definition.outputs()[0];
  const auto form = affine_form(
      {planner, output.element, output.position, sizes, node.inputs, axis, [&](int operand) { return operand == source; }});
  if (!form || form->bounded() || form->terms.size() != 1) return std::nullopt;
  Dequantized result{node.inputs[static_cast<std::size_t>(source)], form->terms[0].factor, {}};
  const Numbers zeros = combined(form->constant, result.scale, [](double c, double s) { return -c / s; });
  for (const double z : zeros) {
    if (!(std::fabs(z) <= 255) || std::fabs(z - std::nearbyint(z)) > 1e-6) return std::nullopt;
    result.zero_points.push_back(static_cast<int>(std::nearbyint(z)));
  }
  return result;
}

}  // namespace rewright::cpu
