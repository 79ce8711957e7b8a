#include "verifier/number_laws.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "base/error.h"

namespace rewright::proof {

namespace {

constexpr std::string_view kBits = "bits ";
constexpr std::size_t kMostMergedTerms = 64;  // of a sum whose equal terms are joined

struct Range {
  std::optional<Rational> low, high;
};

bool is_less(const Rational& a, const Rational& b) { return (a + -b).numerator() < 0; }
Rational larger(const Rational& a, const Rational& b) { return is_less(a, b) ? b : a; }
Rational smaller(const Rational& a, const Rational& b) { return is_less(a, b) ? a : b; }
std::optional<Rational> times(const std::optional<Rational>& a, const Rational& b) {
  return a ? std::optional(*a * b) : std::nullopt;
}
std::optional<Rational> plus(const std::optional<Rational>& a, const std::optional<Rational>& b) {
  return a && b ? std::optional(*a + *b) : std::nullopt;
}

class Ranges {
 public:
  Ranges(const std::vector<TensorType>& inputs, bool may_wrap, const NeverEmpty& is_never_empty)
      : inputs_(inputs), may_wrap_(may_wrap), is_never_empty_(is_never_empty) {}

  Range of(const Sum& sum) const {
    Range result{Rational(0), Rational(0)};
    for (const Term& t : sum) {
      Range range = of(t);
      result.low = plus(result.low, range.low), result.high = plus(result.high, range.high);
    }
    return result;
  }

  // The range of the largest element.
  Range of(const std::vector<MaximumElement>& elements) const {
    Range result;
    std::optional<Rational> least;  // of what is in the set, if anything is
    bool has_high = true, has_least = true;
    for (const MaximumElement& e : elements) {
      const Range range = of(e.value);
      has_high = has_high && range.high, has_least = has_least && range.low;
      if (range.high) result.high = result.high ? larger(*result.high, *range.high) : range.high;
      if (range.low) least = least ? smaller(*least, *range.low) : range.low;
      if (range.low && is_plain(e)) result.low = result.low ? larger(*result.low, *range.low) : range.low;
    }
    if (!has_high) result.high.reset();
    if (!result.low && has_least && least && is_never_empty_(elements)) result.low = least;
    return result;
  }

 private:
  Range of(const Term& t) const {
    if (!is_plain(t) || t.factors.size() > 1) return {};
    if (t.factors.empty()) return {t.coefficient, t.coefficient};
    const Range range = of(t.factors[0]);
    const bool is_positive = t.coefficient.numerator() > 0;
    return {times(is_positive ? range.low : range.high, t.coefficient),
            times(is_positive ? range.high : range.low, t.coefficient)};
  }

  Range of(const Factor& f) const {
    if (f.kind == Factor::Kind::kMaximum) return of(f.elements);
    if (f.kind != Factor::Kind::kAccess || may_wrap_) return {};
    switch (inputs_.at(f.input).type) {
      case DataType::kInt8:
        return {Rational(-128), Rational(127)};
      case DataType::kUint8:
        return {Rational(0), Rational(255)};
      case DataType::kBool:
        return {Rational(0), Rational(1)};
      default:
        return {};
    }
  }

  const std::vector<TensorType>& inputs_;
  const bool may_wrap_;
  const NeverEmpty& is_never_empty_;
};

// The addends without factors, as a number.
Rational number_part(const Sum& sum) {
  Rational result = 0;
  for (const Term& t : sum)
    if (is_plain(t) && t.factors.empty()) result = result + t.coefficient;
  return result;
}

bool has_equal_factors(const Term& a, const Term& b) {
  Term one = a, other = b;
  one.coefficient = 1, other.coefficient = 1;
  return is_same(one, other);
}

Sum merged(const Sum& sum) {
  if (sum.size() > kMostMergedTerms) return sum;
  Sum result;
  std::vector<std::string> signatures;
  for (const Term& t : sum) {
    const std::string text = signature(t);
    std::size_t k = 0;
    while (k < result.size() && !(signatures[k] == text && has_equal_factors(result[k], t))) ++k;
    if (k == result.size()) {
      result.push_back(t);
      signatures.push_back(text);
    } else {
      result[k].coefficient = result[k].coefficient + t.coefficient;
    }
  }
  std::erase_if(result, [](const Term& t) { return t.coefficient.is_zero(); });
  return result;
}

Sum moved(const Sum& sum);

// The maximum without the number that is taken out, and that number.
std::pair<Factor, Rational> without_number(const Factor& maximum) {
  Factor result = maximum;
  std::optional<Rational> alone, any;
  for (MaximumElement& e : result.elements) {
    e.value = moved(e.value);
    const std::optional<Rational> whole = number(e.value);
    const Rational part = number_part(e.value);
    if (whole && is_plain(e)) alone = alone ? larger(*alone, *whole) : *whole;
    any = any ? larger(*any, part) : part;
  }
  const Rational taken = alone ? *alone : any.value_or(0);
  if (taken.is_zero()) return {std::move(result), 0};
  for (MaximumElement& e : result.elements) e.value = merged(joined(std::move(e.value), constant(-taken)));
  return {std::move(result), taken};
}

Sum moved(const Sum& sum) {
  Sum result;
  for (const Term& given : sum) {
    Term rest = given;
    rest.factors.clear();
    Sum whole{rest};
    for (const Factor& f : given.factors) {
      Sum value;
      if (f.kind == Factor::Kind::kMaximum) {
        auto [factor, taken] = without_number(f);
        value = joined(single(std::move(factor)), constant(taken));
      } else {
        Factor factor = f;
        for (Sum& argument : factor.arguments) argument = moved(argument);
        value = single(std::move(factor));
      }
      Sum next;
      for (const Term& a : whole)
        for (const Term& b : value) {
          Term& t = next.emplace_back(a);
          t.coefficient = a.coefficient * b.coefficient;
          t.factors.insert(t.factors.end(), b.factors.begin(), b.factors.end());
        }
      whole = std::move(next);
    }
    // A variable is bound once.
    if (whole.size() > 1) whole = with_fresh_names(std::move(whole));
    result.insert(result.end(), whole.begin(), whole.end());
  }
  return merged(result);
}

}  // namespace

std::optional<double> number_of_bits(const Factor& factor) {
  if (factor.kind != Factor::Kind::kUnknown || !factor.name.starts_with(kBits)) return std::nullopt;
  const auto value = std::bit_cast<double>(std::uint64_t{std::stoull(factor.name.substr(kBits.size()))});
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

bool rounds_to_integer(const Function* law) {
  return law == &functions::round_even || law == &functions::floor || law == &functions::ceil;
}

bool is_integral(const Factor& f, const std::vector<TensorType>& inputs) {
  switch (f.kind) {
    case Factor::Kind::kAccess:
      return is_integer(inputs.at(f.input).type) || inputs.at(f.input).type == DataType::kBool;
    case Factor::Kind::kFunction:
      return f.name == "integer quotient" || f.name.ends_with(" of integers") || f.name.ends_with(" to integer") ||
             (rounds_to_integer(f.law) && f.name == f.law->name);
    case Factor::Kind::kMaximum:
    case Factor::Kind::kIndex:
    case Factor::Kind::kReciprocalIndex:
    case Factor::Kind::kUnknown:
      break;
  }
  return false;
}

bool is_integral(const Sum& sum, const std::vector<TensorType>& inputs, const NeverEmpty& is_never_empty) {
  const auto is_integer_factor = [&](const Factor& f) {
    if (f.kind == Factor::Kind::kIndex) return true;
    if (f.kind != Factor::Kind::kMaximum) return is_integral(f, inputs);
    const bool all = std::all_of(f.elements.begin(), f.elements.end(),
                                 [&](const MaximumElement& e) { return is_integral(e.value, inputs, is_never_empty); });
    const auto plain = [](const MaximumElement& e) { return is_plain(e); };
    return all && (std::any_of(f.elements.begin(), f.elements.end(), plain) || is_never_empty(f.elements));
  };
  return std::all_of(sum.begin(), sum.end(), [&](const Term& t) {
    return t.coefficient.denominator() == 1 && std::all_of(t.factors.begin(), t.factors.end(), is_integer_factor);
  });
}

void drop_undecisive(std::vector<MaximumElement>& elements, const std::vector<TensorType>& inputs, bool may_wrap,
                     const NeverEmpty& is_never_empty) {
  if (elements.size() < 2) return;
  const auto is_number = [](const MaximumElement& e) { return is_plain(e) && number(e.value).has_value(); };
  const auto found = std::find_if(elements.begin(), elements.end(), is_number);
  if (found == elements.end()) return;
  try {
    const Ranges ranges(inputs, may_wrap, is_never_empty);
    const Rational limit = number(found->value).value();
    std::vector<MaximumElement> others;
    for (const MaximumElement& e : elements) {
      if (&e == &*found) continue;
      const Range range = ranges.of(e.value);
      if (!range.high || is_less(limit, *range.high)) others.push_back(e);
    }
    const Range range = others.empty() ? Range() : ranges.of(others);
    const bool is_decided = range.low && !is_less(*range.low, limit);
    if (!is_decided) others.push_back(*found);
    elements = std::move(others);
  } catch (const Error& error) {  // fractions that leave 64 bits
    if (error.code() != ErrorCode::kUnsupported) throw;
  }
}

Sum with_moved_numbers(const Sum& sum) { return moved(sum); }

}  // namespace rewright::proof
