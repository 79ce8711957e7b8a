#include "equivalence/checker/ranges.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <map>

#include "expressions/element.h"
#include "expressions/exact_number.h"

namespace rewright::equivalence {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Range kUnknown{-kInfinity, kInfinity};
constexpr double kExact = 0x1p53;                              // integers up to it are exact in double
constexpr std::int64_t kMostElements = std::int64_t{1} << 16;  // of a constant that are looked at
constexpr int kNarrow = 16;                                    // bits: sums of so few are considered

bool holds(const Range& outer, const Range& inner) { return outer.low <= inner.low && inner.high <= outer.high; }
Range either(const Range& a, const Range& b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }
Range hull(std::initializer_list<double> values) { return {std::min(values), std::max(values)}; }

// A bound times zero is zero: elements are finite.
double product_of(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

// Sums and products in double are roundings, unless they are small integers.
Range outwards(const Range& range) {
  const auto is_exact = [](double x) { return std::isinf(x) || (x == std::floor(x) && std::abs(x) <= kExact); };
  return {is_exact(range.low) ? range.low : std::nextafter(range.low, -kInfinity),
          is_exact(range.high) ? range.high : std::nextafter(range.high, kInfinity)};
}

Range sum_of(const Range& a, const Range& b) { return {a.low + b.low, a.high + b.high}; }
Range product_of(const Range& a, const Range& b) {
  return hull({product_of(a.low, b.low), product_of(a.low, b.high), product_of(a.high, b.low), product_of(a.high, b.high)});
}

// The range of an element for an output of this type.
class ElementRanges {
 public:
  ElementRanges(const std::vector<Range>& operands, DataType type)
      : operands_(operands),
        type_(is_integer(type) ? range_of(type) : kUnknown),
        is_wide_(is_integer(type) && packed_bits(type) > kNarrow) {}

  Range of(const Element& e) {
    if (const auto known = known_.find(e.get()); known != known_.end()) return known->second;
    const Range range = computed(*e);
    return known_.emplace(e.get(), range).first->second;
  }

 private:
  using Kind = ElementNode::Kind;

  Range computed(const ElementNode& e) {
    const auto argument = [&](std::size_t i) { return of(e.arguments.at(i)); };
    switch (e.kind) {
      case Kind::kConstant:
        return constant(e);
      case Kind::kFromIndex:
        if (const auto number = e.index.constant()) return {static_cast<double>(*number), static_cast<double>(*number)};
        return kUnknown;
      case Kind::kRead: {
        const auto operand = static_cast<std::size_t>(e.operand);
        const Range range = operand < operands_.size() ? operands_[operand] : kUnknown;
        return e.zero_outside ? either(range, {0, 0}) : range;
      }
      case Kind::kAdd:
        return arithmetic(e, sum_of(argument(0), argument(1)));
      case Kind::kMultiply:
        return arithmetic(e, product_of(argument(0), argument(1)));
      case Kind::kDivide:
        return arithmetic(e, quotient(e));
      case Kind::kMaximum:
        return {std::max(argument(0).low, argument(1).low), std::max(argument(0).high, argument(1).high)};
      case Kind::kMinimum:
        return {std::min(argument(0).low, argument(1).low), std::min(argument(0).high, argument(1).high)};
      case Kind::kApply:
        return arithmetic(e, applied(e));
      case Kind::kReduce:
        return arithmetic(e, reduced(e));
      case Kind::kChoose:
        return either(argument(0), argument(1));
      case Kind::kSelect:
        return either(argument(1), argument(2));
      case Kind::kConvert:
        return converted(e);
    }
    return kUnknown;
  }

  static Range constant(const ElementNode& e) {
    if (e.scalar != Scalar::kReal) {
      const Range range{static_cast<double>(e.integer), static_cast<double>(e.integer)};
      return std::abs(range.low) <= kExact ? range : kUnknown;
    }
    return e.real.symbol.empty() && !std::isnan(e.real.value) ? Range{e.real.value, e.real.value} : kUnknown;
  }

  // Sums of integers that leave 32 or 64 bits are not considered; negative ones of unsigned types are.
  Range arithmetic(const ElementNode& e, const Range& range) const {
    if (e.scalar == Scalar::kBoolean) return {0, 1};
    const Range result = std::isnan(range.low) || std::isnan(range.high) ? kUnknown : outwards(range);
    return e.scalar == Scalar::kInteger ? within_type(result) : result;
  }
  Range within_type(const Range& range) const {
    if (!is_wide_) return range;
    const double low = type_.low == 0 ? range.low : std::clamp(range.low, type_.low, type_.high);
    return {low, std::max(low, std::min(range.high, type_.high))};
  }

  Range quotient(const ElementNode& e) {
    const Range a = of(e.arguments.at(0)), b = of(e.arguments.at(1));
    if (b.low > 0 || b.high < 0) {
      const auto divided = [](double x, double by) { return std::isinf(by) ? 0 : x / by; };
      const Range range =
          hull({divided(a.low, b.low), divided(a.low, b.high), divided(a.high, b.low), divided(a.high, b.high)});
      return e.scalar == Scalar::kInteger ? Range{std::trunc(range.low), std::trunc(range.high)} : range;
    }
    if (e.scalar == Scalar::kReal) return kUnknown;
    if (a.low >= 0 && b.low >= 0) return {0, a.high};
    const double most = std::max(std::abs(a.low), std::abs(a.high));
    return {-most, most};
  }

  Range applied(const ElementNode& e) {
    const Function* f = e.function;
    if (f == &functions::floor || f == &functions::ceil || f == &functions::round_even) {
      const Range range = of(e.arguments.at(0));
      if (f == &functions::floor) return {std::floor(range.low), std::floor(range.high)};
      if (f == &functions::ceil) return {std::ceil(range.low), std::ceil(range.high)};
      return {std::nearbyint(range.low), std::nearbyint(range.high)};
    }
    if (f == &functions::abs) {
      const Range range = of(e.arguments.at(0));
      const double most = std::max(std::abs(range.low), std::abs(range.high));
      return {range.low <= 0 && range.high >= 0 ? 0 : std::min(std::abs(range.low), std::abs(range.high)), most};
    }
    if (f == &functions::sign || f == &functions::tanh) return {-1, 1};
    if (f == &functions::sigmoid) return {0, 1};
    return kUnknown;
  }

  Range reduced(const ElementNode& e) {
    const Range range = of(e.arguments.at(0));
    if (e.reduction == Reduction::kMax || e.reduction == Reduction::kMin) return range;
    if (e.reduction != Reduction::kSum) return kUnknown;
    const auto number = e.bound.constant();
    const double count = number ? static_cast<double>(*number) : kInfinity;
    const bool is_exact = number && e.conditions.empty();
    const Range all{product_of(count, range.low), product_of(count, range.high)};
    return is_exact ? all : either(all, {0, 0});
  }

  Range converted(const ElementNode& e) {
    if (e.scalar == Scalar::kBoolean) return {0, 1};
    const Range range = of(e.arguments.at(0));
    if (e.scalar != Scalar::kInteger || e.arguments[0]->scalar != Scalar::kReal) return range;
    return within_type({std::trunc(range.low), std::trunc(range.high)});
  }

  const std::vector<Range>& operands_;
  const Range type_;
  const bool is_wide_;
  std::map<const ElementNode*, Range> known_;
};

}  // namespace

Range range_of(DataType type) {
  if (type == DataType::kBool) return {0, 1};
  if (!is_integer(type)) return kUnknown;
  const int bits = packed_bits(type);
  switch (type) {
    case DataType::kUint2:
    case DataType::kUint4:
    case DataType::kUint8:
    case DataType::kUint16:
    case DataType::kUint32:
    case DataType::kUint64:
      return {0, std::ldexp(1.0, bits) - 1};
    default:
      return {-std::ldexp(1.0, bits - 1), std::ldexp(1.0, bits - 1) - 1};
  }
}

Range range_of(const Tensor& constant) {
  const Range all = range_of(constant.type());
  if (constant.type() == DataType::kString || !fits_real(constant) || constant.size() == 0 || constant.size() > kMostElements)
    return all;
  const std::vector<double> elements = constant.reals();
  if (std::any_of(elements.begin(), elements.end(), [](double x) { return std::isnan(x); })) return all;
  const auto [low, high] = std::minmax_element(elements.begin(), elements.end());
  return {*low, *high};
}

OutputRanges output_ranges(const Definition& definition, const std::vector<Range>& operands) {
  OutputRanges result;
  for (const Output& output : definition.outputs()) {
    const DataType type = output.type.type;
    const Range all = range_of(type);
    Range range = output.element ? ElementRanges(operands, type).of(output.element) : all;
    if (is_integer(type) && !holds(all, range)) result.may_wrap = true, range = all;
    result.ranges.push_back(range);
  }
  return result;
}

std::vector<bool> wrapping_nodes(const Graph& graph) {
  std::vector<Range> ranges;
  ranges.reserve(graph.value_count());
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const Value& value = graph.value(id);
    ranges.push_back(value.constant ? range_of(value.constant) : range_of(value.type.type));
  }
  std::vector<bool> result;
  for (const auto& node : graph.nodes()) {
    std::vector<Range> operands;
    for (const ValueId id : node->inputs) operands.push_back(id == kNoValue ? kUnknown : ranges[id]);
    const OutputRanges outputs =
        output_ranges(node->op->define(node->attributes, Inputs::of(graph.operand_types(*node))), operands);
    result.push_back(outputs.may_wrap);
    for (std::size_t o = 0; o < node->outputs.size() && o < outputs.ranges.size(); ++o)
      if (node->outputs[o] != kNoValue) ranges[node->outputs[o]] = outputs.ranges[o];
  }
  return result;
}

}  // namespace rewright::equivalence
