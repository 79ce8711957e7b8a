// Truth values in normal forms are the numbers 0 and 1: `and` is a product, `not` a difference from 1. Integers whose sign is
// known are divided as index expressions are.
#include <algorithm>

#include "verifier/divisions.h"
#include "verifier/normal_form.h"

namespace rewright::proof {

namespace {

bool stands_alone(const Term& t) { return t.bound.empty() && t.guards.empty(); }

// Terms that differ only in their coefficient become one.
Sum collected(const Sum& sum) {
  Sum result;
  for (Term t : simplified(sum)) {
    const auto same = std::find_if(result.begin(), result.end(), [&](const Term& other) {
      Term scaled_like = t;
      scaled_like.coefficient = other.coefficient;
      return is_same(scaled_like, other);
    });
    if (same == result.end()) {
      result.push_back(std::move(t));
    } else {
      same->coefficient = same->coefficient + t.coefficient;
      if (same->coefficient.is_zero()) result.erase(same);
    }
  }
  return result;
}

Sum negation(const Sum& truth) { return collected(joined(constant(1), scaled(truth, -1))); }
Sum conjunction(const Sum& a, const Sum& b) { return collected(product(a, with_fresh_names(b))); }
Sum disjunction(const Sum& a, const Sum& b) {
  return collected(joined(joined(a, b), scaled(product(a, with_fresh_names(b)), -1)));
}

// Is the value a number wherever its inputs are? A maximum may be over nothing.
bool is_total(const Sum& sum) {
  return std::all_of(sum.begin(), sum.end(), [](const Term& t) {
    return std::all_of(t.factors.begin(), t.factors.end(), [](const Factor& f) {
      if (f.kind == Factor::Kind::kMaximum || f.kind == Factor::Kind::kReciprocalIndex || f.name == "reciprocal") return false;
      return !(f.law && f.law->partial) && std::all_of(f.arguments.begin(), f.arguments.end(), is_total);
    });
  });
}

// Is it a sum of unsigned elements of these inputs and of positive numbers?
bool is_never_negative(const Sum& sum, const std::vector<TensorType>& inputs) {
  const auto is_unsigned = [&](const Factor& f) {
    if (f.kind != Factor::Kind::kAccess) return false;
    const DataType type = inputs.at(f.input).type;
    return type == DataType::kUint8 || type == DataType::kUint16 || type == DataType::kUint32 || type == DataType::kUint64;
  };
  return std::all_of(sum.begin(), sum.end(), [&](const Term& t) {
    return t.coefficient.numerator() > 0 && std::all_of(t.factors.begin(), t.factors.end(), is_unsigned);
  });
}

// The sum as an index expression, if it is one.
std::optional<Index> as_index_expression(const Sum& sum) {
  Index result = 0;
  for (const Term& t : sum) {
    if (!stands_alone(t) || t.coefficient.denominator() != 1) return std::nullopt;
    Index value = t.coefficient.numerator();
    for (const Factor& f : t.factors) {
      if (f.kind != Factor::Kind::kIndex) return std::nullopt;
      value *= f.index;
    }
    result += value;
  }
  return result;
}

}  // namespace

std::optional<Sum> Normalizer::of_truth_values(const std::string& name, const Function* law,
                                               const std::vector<Sum>& arguments) {
  if (!law && name == "select") {
    const Sum &condition = arguments[0], &then = arguments[1], &otherwise = arguments[2];
    if (const auto known = proof::number(condition)) return known->is_zero() ? otherwise : then;
    if (same_value(then, otherwise)) return then;
    if (is_total(then) && is_total(otherwise)) try {
        return collected(
            joined(product(condition, with_fresh_names(then)), product(negation(condition), with_fresh_names(otherwise))));
      } catch (const Error& e) {
        // Sums with the largest integer (a minimum's start) can be beyond 64 bits: it stays a choice.
        if (e.code() != ErrorCode::kUnsupported) throw;
      }
    const auto one = [](const Term& t) { return stands_alone(t) && t.factors.empty() && t.coefficient == Rational(1); };
    if (std::any_of(condition.begin(), condition.end(), one))
      return single(function(name, law, {negation(condition), otherwise, then}));
    return std::nullopt;
  }
  if (law == &functions::logical_not) return negation(arguments[0]);
  if (law == &functions::logical_and) return conjunction(arguments[0], arguments[1]);
  if (law == &functions::logical_or) return disjunction(arguments[0], arguments[1]);
  if (law == &functions::logical_xor)
    return collected(
        joined(joined(arguments[0], arguments[1]), scaled(product(arguments[0], with_fresh_names(arguments[1])), -2)));
  if (law == &functions::equal && same_value(arguments[0], arguments[1])) return constant(1);
  if (law == &functions::less_equal) {  // a <= b where not b < a
    const std::string suffix = name.substr(law->name.size());
    return negation(function_value(std::string(functions::less.name) + suffix, &functions::less, {arguments[1], arguments[0]}));
  }
  if (law == &functions::less) return of_less(name, arguments[0], arguments[1]);
  return std::nullopt;
}

// Below a maximum is below one of its values, and below a minimum below all of them.
std::optional<Sum> Normalizer::of_less(const std::string& name, const Sum& a, const Sum& b) {
  if (same_value(a, b)) return Sum();
  bool is_maximum = false;
  for (const bool left : {true, false}) {
    const std::vector<Sum> values = alternatives(left ? a : b, is_maximum);
    if (values.empty()) continue;
    const bool any = is_maximum != left;
    Sum result = constant(any ? 0 : 1);
    for (const Sum& v : values) {
      const Sum one = function_value(name, &functions::less, left ? std::vector{v, b} : std::vector{a, v});
      result = any ? disjunction(result, one) : conjunction(result, one);
    }
    return result;
  }
  // Sums of unsigned numbers wrap around, but stay unsigned: nothing is said of two of them.
  if (b.empty() && is_never_negative(collected(a), side_.inputs)) return Sum();
  const auto first = as_index_expression(a), second = as_index_expression(b);
  if (first && second && solver_.proves_quickly(assumptions_, at_least(*first, *second))) return Sum();
  if (first && second && solver_.proves_quickly(assumptions_, below(*first, *second))) return constant(1);
  return std::nullopt;
}

// x / 1 = x; (x mod y) mod y = x mod y; of index expressions with known signs what index expressions say.
std::optional<Sum> Normalizer::of_division(const std::string& name, const Function* law, const std::vector<Sum>& arguments) {
  const bool divides = !law && name == "integer quotient", truncates = law == &functions::truncated_modulo;
  if (!divides && !truncates && law != &functions::floor_modulo) return std::nullopt;
  const Sum &x = arguments[0], &y = arguments[1];
  if (const auto divisor = proof::number(y); divides && divisor && *divisor == Rational(1)) return x;
  if (!divides && x.size() == 1 && stands_alone(x[0]) && x[0].coefficient == Rational(1) && x[0].factors.size() == 1)
    if (const Factor& inner = x[0].factors[0]; inner.law == law && inner.name == name && same_value(inner.arguments[1], y))
      return x;
  const auto dividend = as_index_expression(x), divisor = as_index_expression(y);
  if (!dividend || !divisor || !(divides || truncates || law)) return std::nullopt;
  const auto sign = [&](const Index& i, std::int64_t least) {
    return solver_.proves_quickly(assumptions_, at_least(i, least))    ? 1
           : solver_.proves_quickly(assumptions_, at_least(-i, least)) ? -1
                                                                       : 0;
  };
  const int of_x = sign(*dividend, 0), of_y = sign(*divisor, 1);
  if (of_x == 0 || of_y == 0 || (!divides && !truncates && (of_x < 0 || of_y < 0))) return std::nullopt;
  const Index size_x = of_x < 0 ? -*dividend : *dividend, size_y = of_y < 0 ? -*divisor : *divisor;
  const Index value = without_divisions(divides ? floor_div(size_x, size_y) : mod(size_x, size_y), assumptions_, solver_);
  const int negative = divides ? of_x * of_y : of_x;
  return scaled(number(value), negative);
}

}  // namespace rewright::proof
