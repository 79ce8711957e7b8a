// Evaluates a denotation to integers that are index expressions over the model's sizes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "expressions/index_bounds.h"
#include "operators/readings/divisors.h"
#include "operators/readings/interpreter.h"

namespace rewright::operators {

namespace {

using Kind = ElementNode::Kind;

// Thrown and caught in this file only: the contents cannot be known.
struct Unknown {};

class Follower {
 public:
  Follower(std::span<const TensorType> types, std::span<const std::optional<Indices>> contents)
      : types_(types), contents_(contents) {}

  Index element(const Element& e, const std::map<std::uint64_t, std::int64_t>& variables) {
    variables_ = variables;
    return evaluate(e);
  }

 private:
  Index index(const Index& i) {
    return substitute(i, [&](const Atom& atom) -> std::optional<Index> {
      if (atom.kind == Atom::Kind::kBound)
        if (const auto at = variables_.find(atom.id); at != variables_.end()) return Index(at->second);
      if (atom.kind == Atom::Kind::kLoad) return evaluate(atom.element);
      return std::nullopt;
    });
  }

  bool holds(const std::vector<Condition>& conditions) {
    for (const Condition& c : conditions) {
      const auto decided = decided_over_sizes({index(c.left), c.relation, index(c.right)});
      if (!decided) throw Unknown{};
      if (!*decided) return false;
    }
    return true;
  }

  Index read(const ElementNode& e) {
    const auto k = static_cast<std::size_t>(e.operand);
    if (k >= contents_.size() || !contents_[k]) throw Unknown{};
    std::int64_t flat = 0;
    for (std::size_t a = 0; a < e.position.size(); ++a) {
      const auto i = index(e.position[a]).constant(), size = types_[k].shape[a].constant();
      if (!i || !size) throw Unknown{};
      if (*i < 0 || *i >= *size) {
        if (e.zero_outside) return 0;
        throw Unknown{};
      }
      flat = flat * *size + *i;
    }
    if (flat >= static_cast<std::int64_t>(contents_[k]->size())) throw Unknown{};
    return (*contents_[k])[static_cast<std::size_t>(flat)];
  }

  Index evaluate(const Element& e) {
    const auto argument = [&](std::size_t i) { return evaluate(e->arguments[i]); };
    switch (e->kind) {
      case Kind::kConstant:
        if (e->scalar != Scalar::kReal) return e->integer;
        if (!e->real.symbol.empty()) throw Unknown{};
        return whole(e->real.value);
      case Kind::kFromIndex:
        return index(e->index);
      case Kind::kRead:
        return read(*e);
      case Kind::kAdd:
        return argument(0) + argument(1);
      case Kind::kMultiply:
        return argument(0) * argument(1);
      case Kind::kDivide: {
        const Index a = argument(0), b = argument(1);
        if (b.constant() == 0) throw Unknown{};
        if (a.is_constant() && b.is_constant()) {
          if (b.value() == -1 && a.value() == std::numeric_limits<std::int64_t>::min()) throw Unknown{};
          if (e->scalar == Scalar::kReal && a.value() % b.value() != 0) throw Unknown{};
          return a.value() / b.value();
        }
        if (e->scalar == Scalar::kReal) throw Unknown{};
        return truncated_quotient(a, b);
      }
      case Kind::kMaximum:
        return max_over_sizes(argument(0), argument(1));
      case Kind::kMinimum:
        return min_over_sizes(argument(0), argument(1));
      case Kind::kChoose:
        return argument(holds(e->conditions) ? 0 : 1);
      case Kind::kSelect: {
        const auto condition = truth(e->arguments[0]);
        if (condition) return argument(*condition ? 1 : 2);
        const Index then = argument(1);
        if (!(then == argument(2))) throw Unknown{};
        return then;
      }
      case Kind::kConvert: {
        if (e->scalar != Scalar::kBoolean) return argument(0);
        const auto condition = truth(e->arguments[0]);
        if (!condition) throw Unknown{};
        return *condition ? 1 : 0;
      }
      case Kind::kReduce:
        return reduce(*e);
      case Kind::kApply:
        return apply(*e);
    }
    throw Unknown{};
  }

  Index reduce(const ElementNode& e) {
    const auto bound = index(e.bound).constant();
    if (!bound || *bound > 4096) throw Unknown{};
    std::optional<Index> result;
    if (e.reduction == Reduction::kSum) result = 0;
    if (e.reduction == Reduction::kProduct) result = 1;
    const std::uint64_t variable = e.index.as_atom()->id;
    for (std::int64_t i = 0; i < *bound; ++i) {
      variables_[variable] = i;
      if (!holds(e.conditions)) continue;
      const Index v = evaluate(e.arguments[0]);
      if (!result)
        result = v;
      else
        result = e.reduction == Reduction::kSum       ? *result + v
                 : e.reduction == Reduction::kProduct ? *result * v
                 : e.reduction == Reduction::kMax     ? max_over_sizes(*result, v)
                                                      : min_over_sizes(*result, v);
    }
    variables_.erase(variable);
    if (!result) throw Unknown{};
    return *result;
  }

  // Integer division rounds towards zero. The divisor is not 0, because execution would end there.
  static Index truncated_quotient(const Index& a, const Index& b) {
    const Bounds dividend = bounds_over_sizes(a), divisor = bounds_over_sizes(b);
    if (divisor.low < 0) throw Unknown{};
    Index quotient = dividend.low >= 0    ? floor_div(a, b)
                     : dividend.high <= 0 ? -floor_div(-a, b)
                                          : floor_div(max(a, 0), b) - floor_div(max(-a, 0), b);
    // If the divisor may be 0, the division must be exact, so that the quotient does not contain it.
    bool may_fail = false;
    if (divisor.low < 1)
      for_each_atom(quotient, [&](const Atom& atom) {
        may_fail = may_fail || (atom.kind == Atom::Kind::kFloorDiv && atom.arguments[1] == b);
      });
    if (may_fail) throw Unknown{};
    return quotient;
  }

  // Is it nonzero? nullopt: this depends on the sizes.
  std::optional<bool> truth(const Element& e) { return decided_over_sizes(not_equal(evaluate(e), 0)); }

  // One known side may decide: unknown and false is false.
  std::optional<bool> either(const Element& a, const Element& b, bool decisive) {
    bool unknown = false;
    for (const Element* const side : {&a, &b}) {
      std::optional<bool> found;
      try {
        found = truth(*side);
      } catch (const Unknown&) {
      }
      if (found == decisive) return decisive;
      unknown = unknown || !found;
    }
    if (unknown) return std::nullopt;
    return !decisive;
  }

  Index decided(std::optional<bool> answer) {
    if (!answer) throw Unknown{};
    return *answer ? 1 : 0;
  }

  // Reals are followed only if they are whole and in the range in which double has every integer.
  static Index whole(double value) {
    if (!(std::fabs(value) <= 0x1p53) || value != std::floor(value)) throw Unknown{};
    return static_cast<std::int64_t>(value);
  }

  Index apply(const ElementNode& e) {
    if (e.function == &functions::logical_and || e.function == &functions::logical_or)
      return decided(either(e.arguments[0], e.arguments[1], e.function == &functions::logical_or));
    std::vector<Index> arguments;
    std::vector<std::int64_t> numbers;
    for (const Element& a : e.arguments) {
      arguments.push_back(evaluate(a));
      if (arguments.back().is_constant()) numbers.push_back(arguments.back().value());
    }
    if (numbers.size() == arguments.size() && e.function->integer) {
      if (e.function == &functions::pow && numbers[1] < 0) throw Unknown{};  // not an integer
      return e.function->integer(numbers.data());
    }
    return apply_to_sizes(*e.function, arguments);
  }

  Index apply_to_sizes(const Function& f, const std::vector<Index>& x) {
    if (&f == &functions::equal) return decided(decided_over_sizes(rewright::equal(x[0], x[1])));
    if (&f == &functions::less) return decided(decided_over_sizes(rewright::less(x[0], x[1])));
    if (&f == &functions::less_equal) return decided(decided_over_sizes(rewright::less_equal(x[0], x[1])));
    // Rounding leaves integers as they are.
    if (&f == &functions::floor || &f == &functions::ceil || &f == &functions::round_even) return x[0];
    if (&f == &functions::abs) return max_over_sizes(x[0], -x[0]);
    if (&f == &functions::sign) return max_over_sizes(min_over_sizes(x[0], 1), -1);
    const bool floors = &f == &functions::floor_modulo;
    if (floors || &f == &functions::truncated_modulo) {
      if (bounds_over_sizes(x[1]).low < 1) throw Unknown{};
      const Bounds dividend = bounds_over_sizes(x[0]);
      if (floors || dividend.low >= 0) return mod(x[0], x[1]);
      if (dividend.high <= 0) return -mod(-x[0], x[1]);
    }
    throw Unknown{};
  }

  std::span<const TensorType> types_;
  std::span<const std::optional<Indices>> contents_;
  std::map<std::uint64_t, std::int64_t> variables_;
};

// The number as the output's type holds it: it wraps around, as in execution. Sizes are less than 2^31, and what is computed of
// them is taken for a number of 32 or 64 bits; whether it is one of fewer, or negative without a sign, is asked.
Index stored(const Index& element, DataType type) {
  if (type == DataType::kInt64) return element;
  if (!element.is_constant()) {
    if (type == DataType::kInt32 || !is_integer(type)) return element;
    const bool is_unsigned =
        type == DataType::kUint8 || type == DataType::kUint16 || type == DataType::kUint32 || type == DataType::kUint64;
    const int bits = packed_bits(type) - (is_unsigned ? 0 : 1);
    const Bounds bounds = bounds_over_sizes(element);
    const bool is_wide = packed_bits(type) > 16;
    const std::int64_t high = is_wide ? bounds.high : (std::int64_t{1} << bits) - 1;
    if (bounds.low < (is_unsigned ? 0 : -high - 1) || bounds.high > high) throw Unknown{};
    return element;
  }
  const std::int64_t value[] = {element.value()};
  return Tensor::from_integers(type, {}, value).integers()[0];
}

}  // namespace

std::vector<std::optional<Indices>> known_contents(const Operator& op, const Attributes& attributes,
                                                   std::span<const TensorType> input_types,
                                                   std::span<const std::optional<Indices>> input_contents, std::int64_t limit) {
  std::vector<std::optional<TensorType>> operands;
  for (const TensorType& type : input_types)
    operands.push_back(type.type == DataType::kUndefined ? std::nullopt : std::optional(type));  // absent
  const Definition definition = op.define(attributes, Inputs::of(std::span<const std::optional<TensorType>>(operands)));
  // A quotient or remainder of integers by 0 is not defined, so its elements are not known.
  for (const std::size_t k : integer_divisors(definition)) {
    const bool is_known = k < input_contents.size() && input_contents[k];
    if (is_known &&
        std::any_of(input_contents[k]->begin(), input_contents[k]->end(), [](const Index& i) { return i.constant() == 0; }))
      return std::vector<std::optional<Indices>>(definition.outputs().size());
  }
  std::vector<std::optional<Indices>> result;
  for (const Output& output : definition.outputs()) {
    std::optional<Indices>& contents = result.emplace_back();
    if (!output.element || !all_constant(output.type.shape)) continue;
    const Sizes sizes = values(output.type.shape);
    const std::int64_t count = element_count(sizes);
    if (count > limit) continue;
    try {
      Follower follower(input_types, input_contents);
      Indices elements;
      for (std::int64_t flat = 0; flat < count; ++flat) {
        std::map<std::uint64_t, std::int64_t> variables;
        std::int64_t rest = flat;
        for (std::size_t a = sizes.size(); a-- > 0;) {
          variables[output.position[a].as_atom()->id] = rest % sizes[a];
          rest /= sizes[a];
        }
        elements.push_back(stored(follower.element(output.element, variables), output.type.type));
      }
      contents = std::move(elements);
    } catch (const Unknown&) {
      contents = std::nullopt;
    } catch (const Error&) {  // numbers that are not sizes, and overflow
      contents = std::nullopt;
    }
  }
  return result;
}

}  // namespace rewright::operators
