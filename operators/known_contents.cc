// The third reading of a denotation: integers as index expressions over the sizes of the model.
#include <cmath>
#include <map>

#include "operators/interpreter.h"

namespace rewright {

namespace {

using Kind = ElementNode::Kind;

// Thrown inside of this file only: the contents cannot be known.
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
      const auto decided = Condition{index(c.left), c.relation, index(c.right)}.decided();
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
    return contents_[k]->at(static_cast<std::size_t>(flat));
  }

  Index evaluate(const Element& e) {
    const auto argument = [&](std::size_t i) { return evaluate(e->arguments[i]); };
    switch (e->kind) {
      case Kind::kConstant:
        if (e->scalar != Scalar::kReal) return e->integer;
        if (e->real.symbol.empty() && std::fabs(e->real.value) <= 0x1p53 && e->real.value == std::floor(e->real.value))
          return static_cast<std::int64_t>(e->real.value);
        throw Unknown{};
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
          if (e->scalar == Scalar::kReal && a.value() % b.value() != 0) throw Unknown{};
          return a.value() / b.value();
        }
        // Sizes are not negative, so division towards zero is floor division, as long as the divisor is a positive number.
        if (e->scalar == Scalar::kReal || !b.is_constant() || b.value() < 1) throw Unknown{};
        return floor_div(a, b);
      }
      case Kind::kMaximum:
        return max(argument(0), argument(1));
      case Kind::kMinimum:
        return min(argument(0), argument(1));
      case Kind::kChoose:
        return argument(holds(e->conditions) ? 0 : 1);
      case Kind::kSelect: {
        const auto condition = argument(0).constant();
        if (!condition) throw Unknown{};
        return argument(*condition ? 1 : 2);
      }
      case Kind::kConvert: {
        const Index a = argument(0);
        if (e->scalar != Scalar::kBoolean) return a;
        if (!a.is_constant()) throw Unknown{};
        return a.value() != 0 ? 1 : 0;
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
                 : e.reduction == Reduction::kMax     ? max(*result, v)
                                                      : min(*result, v);
    }
    variables_.erase(variable);
    if (!result) throw Unknown{};
    return *result;
  }

  Index apply(const ElementNode& e) {
    std::vector<Index> arguments;
    std::vector<std::int64_t> numbers;
    for (const Element& a : e.arguments) {
      arguments.push_back(evaluate(a));
      if (arguments.back().is_constant()) numbers.push_back(arguments.back().value());
    }
    if (e.function->integer && numbers.size() == arguments.size()) return e.function->integer(numbers.data());
    // Equal expressions are equal; rounding leaves integers as they are.
    if (e.function == &functions::equal && arguments[0] == arguments[1]) return 1;
    if (e.function == &functions::floor || e.function == &functions::ceil || e.function == &functions::round_even)
      return arguments[0];
    throw Unknown{};
  }

  std::span<const TensorType> types_;
  std::span<const std::optional<Indices>> contents_;
  std::map<std::uint64_t, std::int64_t> variables_;
};

}  // namespace

std::vector<std::optional<Indices>> known_contents(const Operator& op, const Attributes& attributes,
                                                   std::span<const TensorType> input_types,
                                                   std::span<const std::optional<Indices>> input_contents, std::int64_t limit) {
  std::vector<std::optional<TensorType>> operands;
  for (const TensorType& type : input_types)
    operands.push_back(type.type == DataType::kUndefined ? std::nullopt : std::optional(type));  // absent
  const Definition definition = op.define(attributes, Inputs::of(std::span<const std::optional<TensorType>>(operands)));
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
        elements.push_back(follower.element(output.element, variables));
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

}  // namespace rewright
