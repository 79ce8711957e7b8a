// Functions in normal forms: their cases, and the laws stated with their definitions.
#include <algorithm>
#include <map>

#include "expressions/identity.h"
#include "verifier/normal_form.h"
#include "verifier/number_laws.h"

namespace rewright::proof {

namespace {

constexpr std::int64_t kLargestPower = 4;  // written as a product

bool is_reciprocal(const Factor& f) { return f.kind == Factor::Kind::kFunction && f.name == "reciprocal"; }

// The sum's only factor, if it has nothing else.
const Factor* only_factor(const Sum& sum) {
  const bool only = sum.size() == 1 && is_plain(sum[0]) && sum[0].coefficient == Rational(1) && sum[0].factors.size() == 1;
  return only ? &sum[0].factors[0] : nullptr;
}

// True for exactly one of a sum and its negative, unless their structure does not distinguish them.
bool leads_negative(const Sum& sum) {
  std::map<std::string, Rational> totals;
  for (const Term& t : sum) {
    Rational& total = totals[signature(t)];
    total = total + t.coefficient;
  }
  for (const auto& [text, total] : totals)
    if (!total.is_zero()) return total.numerator() < 0;
  return false;
}

Sum reciprocal_of(const Factor& f) {
  if (f.kind == Factor::Kind::kIndex) return single({.kind = Factor::Kind::kReciprocalIndex, .index = f.index});
  if (f.kind == Factor::Kind::kReciprocalIndex) return single({.kind = Factor::Kind::kIndex, .index = f.index});
  if (is_reciprocal(f)) return f.arguments[0];
  if (f.law == &functions::pow && f.name == f.law->name)
    return single(function(f.name, f.law, {f.arguments[0], scaled(f.arguments[1], -1)}));
  return single(function("reciprocal", nullptr, {single(f)}));
}

// f(x + y) = f(x) f(y). Sums over variables with the same factors stay together, since they may be parts of one sum on the
// other side.
Sum of_sum(const std::string& name, const Function* law, const Sum& argument) {
  Sum result = constant(1);
  std::map<std::string, Sum> sums;
  const auto multiply = [&](const Sum& exponent, bool divides, std::int64_t power) {
    const Factor f = function(name, law, {exponent});
    for (std::int64_t n = 0; n < power; ++n) result = product(result, divides ? reciprocal_of(f) : single(f));
  };
  for (const Term& t : argument) {
    if (!is_plain(t)) {
      sums[signature(t)].push_back(t);
      continue;
    }
    const bool divides = t.coefficient.numerator() < 0;
    const Rational size = t.coefficient.absolute();
    const std::int64_t power = size.denominator() == 1 && size.numerator() <= kLargestPower ? size.numerator() : 1;
    multiply(scaled({t}, Rational(divides ? -1 : 1, power)), divides, power);
  }
  for (const auto& [text, sum] : sums) {
    const bool divides = leads_negative(sum);
    multiply(scaled(sum, divides ? -1 : 1), divides, 1);
  }
  return result;
}

// g(f(x) f(y) / f(z)) = x + y - z, where g undoes the exponential f.
std::optional<Sum> undone(const Function& function, const Sum& argument) {
  if (argument.size() != 1 || !is_plain(argument[0]) || !(argument[0].coefficient == Rational(1))) return std::nullopt;
  if (argument[0].factors.size() != 1 && !function.exponential) return std::nullopt;
  Sum result;
  for (const Factor& f : argument[0].factors) {
    const bool divides = is_reciprocal(f);
    const Factor* power = divides ? only_factor(f.arguments[0]) : &f;
    if (!power || power->kind != Factor::Kind::kFunction || power->law != &function) return std::nullopt;
    result = joined(std::move(result), scaled(power->arguments[0], divides ? -1 : 1));
  }
  return result;
}

// f(x, e) = x, f(e, x) = x where f is commutative; x^n as a product.
std::optional<Sum> of_two(const std::string& name, const Function& law, const std::vector<Sum>& arguments) {
  const auto exponent = number(arguments[1]);
  if (const auto identity = right_identity(law)) {
    if (exponent && *exponent == Rational(*identity)) return arguments[0];
    if (const auto first = number(arguments[0]); law.commutative && first && *first == Rational(*identity)) return arguments[1];
  }
  const bool is_power = &law == &functions::pow && name == law.name;
  if (!is_power || !exponent || exponent->denominator() != 1 || exponent->numerator() < 1 ||
      exponent->numerator() > kLargestPower)
    return std::nullopt;
  Sum result = arguments[0];
  for (std::int64_t n = 1; n < exponent->numerator(); ++n) result = product(result, with_fresh_names(arguments[0]));
  return result;
}

// The square root of a product of squares is the product of the absolute values, as factors; nullopt for other arguments.
std::optional<std::vector<Factor>> roots_of_squares(const Sum& argument) {
  if (argument.size() != 1 || !is_plain(argument[0]) || !(argument[0].coefficient == Rational(1))) return std::nullopt;
  std::vector<Factor> left = argument[0].factors, roots;
  while (!left.empty()) {
    roots.push_back(std::move(left.back()));
    left.pop_back();
    const auto again = std::find_if(left.begin(), left.end(), [&](const Factor& f) { return is_same(f, roots.back()); });
    if (again == left.end()) return std::nullopt;
    left.erase(again);
  }
  return roots;
}

// The exponential that a value is an application of, if it is one.
const Function* exponential_of(const Sum& value) {
  if (value.size() != 1 || value[0].factors.empty()) return nullptr;
  const Factor& f = value[0].factors[0];
  const bool divides = is_reciprocal(f);
  const Factor* power = divides ? only_factor(f.arguments[0]) : &f;
  return power && power->law && power->law->exponential ? power->law : nullptr;
}

// Returns t if the term is t * sum * (1 / SUM) for a term `sum` of SUM.
std::optional<Term> taken_out(Term term, const Factor& divisor, const Term& sum) {
  const auto place = std::find_if(term.factors.begin(), term.factors.end(),
                                  [&](const Factor& f) { return is_reciprocal(f) && is_same(f, divisor); });
  if (place == term.factors.end()) return std::nullopt;
  term.factors.erase(place);
  term.coefficient = term.coefficient * sum.coefficient.reciprocal();
  return take_sum(term, sum) ? std::optional(term) : std::nullopt;
}

// The quotient, if a term and some of the others form a multiple of the divisor; these are removed.
std::optional<Term> ratio_of(const Term& first, const Factor& divisor, Sum& others) {
  const Sum& below = divisor.arguments[0];
  auto quotient = taken_out(first, divisor, below[0]);
  if (!quotient) return std::nullopt;
  for (std::size_t n = 1; n < below.size(); ++n) {
    const auto place = std::find_if(others.begin(), others.end(), [&](const Term& t) {
      const auto other = taken_out(t, divisor, below[n]);
      return other && other->coefficient == quotient->coefficient && is_same(*other, *quotient);
    });
    if (place == others.end()) return std::nullopt;
    others.erase(place);
  }
  return quotient;
}

}  // namespace

Sum Normalizer::apply_function(const std::string& name, const Function* law, const std::vector<Sum>& arguments) {
  std::vector<std::pair<Guards, std::vector<Sum>>> split{{{}, {}}};
  for (const Sum& argument : arguments) {
    std::vector<std::pair<Guards, std::vector<Sum>>> next;
    for (const auto& [guards, values] : split)
      for (const Case& c : cases(simplified(argument))) {
        auto extended = guards;
        extended.insert(extended.end(), c.guards.begin(), c.guards.end());
        if (surely_contradictory(extended)) continue;
        auto all = values;
        all.push_back(c.value);
        next.emplace_back(std::move(extended), std::move(all));
      }
    split = std::move(next);
  }
  Sum result;
  const std::size_t depth = assumptions_.size();
  for (const auto& [guards, values] : split) {
    assumptions_.insert(assumptions_.end(), guards.begin(), guards.end());
    for (Term& t : with_guards(function_value(name, law, values), guards)) result.push_back(std::move(t));
    assumptions_.resize(depth);
  }
  return simplified(result);
}

// The arguments have no cases any more.
Sum Normalizer::function_value(const std::string& name, const Function* law, const std::vector<Sum>& arguments) {
  if (const auto value = of_truth_values(name, law, arguments)) return *value;
  if (const auto value = of_division(name, law, arguments)) return *value;
  if (const auto value = of_power(name, law, arguments)) return *value;
  if (law && arguments.size() == 2)
    if (const auto value = of_two(name, *law, arguments)) return *value;
  if (!law || arguments.size() != 1) return single(function(name, law, arguments));
  Sum argument = arguments[0];
  if (law->zero_at_zero && argument.empty()) return {};
  if (rounds_to_integer(law) && name == law->name && is_integer_sum(argument)) return argument;
  if (law->exponential) return of_sum(name, law, argument);
  if (law->undoes)
    if (const auto value = undone(*law->undoes, argument)) return *value;
  if (law->undoes && law->undoes->exponential)
    if (const auto value = of_product(name, law, argument)) return *value;
  if (law->monotone && !law->partial && argument.size() == 1)
    if (const Sum value = of_maximum(name, law, argument[0]); !value.empty()) return value;
  const Factor* inner = only_factor(argument);
  if (law->idempotent && inner && inner->kind == Factor::Kind::kFunction && inner->name == name) return argument;
  if (law == &functions::abs)
    if (const auto value = of_factors(name, law, argument)) return *value;
  Rational scale = 1;
  if (law->homogeneous) {
    scale = 0;
    for (const Term& t : argument) scale = common_divisor(scale, t.coefficient);
    argument = scaled(std::move(argument), scale.reciprocal());
    std::vector<MaximumElement> values{{{}, {}, argument}};
    if (const auto positive = take_common_factors(values, [&](const Factor& f) { return is_positive(f); }); !positive.empty()) {
      Sum value = scaled(function_value(name, law, {values[0].value}), scale);
      for (const Factor& f : positive) value = product(value, single(f));
      return value;
    }
  }
  if (law->symmetry == Symmetry::kNone || !leads_negative(argument))
    return scaled(single(function(name, law, {argument})), scale);
  const Sum value = scaled(single(function(name, law, {scaled(argument, -1)})), scale);
  if (law->symmetry == Symmetry::kEven) return value;
  return law->symmetry == Symmetry::kOdd ? scaled(value, -1) : joined(constant(1), scaled(value, -1));
}

// Powers, roots and logarithms of one another, wherever both sides are defined: x^0 = 1, x^-n = 1 / x^n, (e^x)^y = e^(x y),
// log sqrt(x) = log(x) / 2, log(1 / x) = -log(x), log(x^y) = y log|x| or 0 where y is 0, sqrt(1 / x) = 1 / sqrt(x), sqrt(x x) =
// |x|, sqrt(4 / 9) = 2 / 3.
std::optional<Sum> Normalizer::of_power(const std::string& name, const Function* law, const std::vector<Sum>& arguments) {
  if (!law || name != law->name) return std::nullopt;
  if (law == &functions::pow) {
    const auto exponent = proof::number(arguments[1]);
    if (exponent && exponent->is_zero()) return constant(1);
    if (exponent && exponent->denominator() == 1 && exponent->numerator() < 0 && -exponent->numerator() <= kLargestPower)
      return reciprocal(function_value(name, law, {arguments[0], constant(exponent->absolute())}));
    if (const auto power = undone(functions::exp, arguments[0]))
      return apply_function(std::string(functions::exp.name), &functions::exp,
                            {product(*power, with_fresh_names(arguments[1]))});
    return std::nullopt;
  }
  if (law != &functions::log && law != &functions::sqrt) return std::nullopt;
  const Factor* inner = only_factor(arguments[0]);
  if (inner && is_reciprocal(*inner)) {
    const Sum value = apply_function(name, law, inner->arguments);
    return law == &functions::log ? scaled(value, -1) : reciprocal(value);
  }
  if (law == &functions::log && inner && inner->law == &functions::sqrt)
    return scaled(apply_function(name, law, inner->arguments), Rational(1, 2));
  if (law == &functions::log && inner && inner->law == &functions::pow && inner->name == functions::pow.name) {
    const Sum &base = inner->arguments[0], &exponent = inner->arguments[1];
    const Factor* const only = only_factor(base);
    if (!is_positive_sum(base) && !(only && only->law == &functions::abs)) partial_ |= kSignOfPower;
    const Sum is_zero = apply_function(std::string(functions::equal.name), &functions::equal, {exponent, {}});
    const Sum logarithm =
        apply_function(name, law, {apply_function(std::string(functions::abs.name), &functions::abs, {base})});
    return apply_function("select", nullptr, {is_zero, {}, product(logarithm, with_fresh_names(exponent))});
  }
  if (law == &functions::sqrt)
    if (const auto value = proof::number(arguments[0]))
      if (const auto root = exact_root(*value)) return constant(*root);
  if (law == &functions::sqrt)
    if (const auto roots = roots_of_squares(arguments[0])) {
      Sum value = constant(1);
      for (const Factor& root : *roots)
        value = product(value, apply_function(std::string(functions::abs.name), &functions::abs, {single(root)}));
      return value;
    }
  return std::nullopt;
}

// f(x y) = f(x) f(y), for absolute values. nullopt unless the argument is a product, or a number.
std::optional<Sum> Normalizer::of_factors(const std::string& name, const Function* law, const Sum& argument) {
  if (argument.size() != 1 || !is_plain(argument[0]) || argument[0].factors.size() == 1) return std::nullopt;
  Sum result = constant(argument[0].coefficient.absolute());
  for (const Factor& f : argument[0].factors) result = product(result, function_value(name, law, {single(f)}));
  return simplified(result);
}

// f(x y) = f(x) + f(y) and f(1 / x) = -f(x) for positive x and y, where f is the inverse of an exponential. nullopt unless the
// argument is a product of known positive factors.
std::optional<Sum> Normalizer::of_product(const std::string& name, const Function* law, Sum argument) {
  const std::vector<Factor> factors = take_common_factors(argument);
  const auto rest = proof::number(argument);
  const bool is_one = rest && *rest == Rational(1);
  if (factors.empty() || !(is_one || is_positive_sum(argument))) return std::nullopt;
  if (factors.size() == 1 && is_one && !is_reciprocal(factors[0])) return std::nullopt;
  Sum result = is_one ? Sum() : function_value(name, law, {argument});
  for (const Factor& f : factors) {
    const bool divides = is_reciprocal(f);
    if (!is_positive(f) && !(divides && is_positive_sum(f.arguments[0]))) return std::nullopt;
    result =
        joined(std::move(result), scaled(function_value(name, law, {divides ? f.arguments[0] : single(f)}), divides ? -1 : 1));
  }
  return result;
}

// f(max S) = max f(S) for nonempty S. Unchanged if the argument is no maximum.
Sum Normalizer::of_maximum(const std::string& name, const Function* law, const Term& argument) {
  if (!is_plain(argument) || argument.factors.size() != 1 || argument.factors[0].kind != Factor::Kind::kMaximum ||
      !is_never_empty(argument.factors[0].elements))
    return {};
  const Rational sign = argument.coefficient.numerator() > 0 ? 1 : -1;  // -max(-S) is a minimum
  std::vector<MaximumElement> elements;
  const std::size_t depth = assumptions_.size();
  for (const MaximumElement& e : argument.factors[0].elements) {
    assumptions_.insert(assumptions_.end(), e.guards.begin(), e.guards.end());
    const Sum value = apply_function(name, law, {scaled(e.value, argument.coefficient)});
    assumptions_.resize(depth);
    add_elements(e.bound, e.guards, scaled(value, sign), elements);
  }
  return scaled(maximum(std::move(elements)), sign);
}

// max f(S) = f(max S) for an exponential f, since more is known of exponentials: they cancel.
std::optional<Sum> Normalizer::maximum_of_powers(const std::vector<MaximumElement>& elements) {
  const Function* law = elements.empty() ? nullptr : exponential_of(elements[0].value);
  if (!law) return std::nullopt;
  const Rational sign = elements[0].value[0].coefficient;
  if (!(sign.absolute() == Rational(1))) return std::nullopt;
  std::vector<MaximumElement> exponents;
  for (const MaximumElement& e : elements) {
    const auto exponent = undone(*law, scaled(e.value, sign));
    if (!exponent) return std::nullopt;
    add_elements(e.bound, e.guards, scaled(*exponent, sign), exponents);
  }
  if (!is_never_empty(elements)) return std::nullopt;
  return scaled(apply_function(std::string(law->name), law, {scaled(maximum(std::move(exponents)), sign)}), sign);
}

bool Normalizer::is_positive(const Factor& f) {
  switch (f.kind) {
    case Factor::Kind::kUnknown:
      return positive_numbers_.count(f.name) > 0 || number_of_bits(f).value_or(0) > 0;
    case Factor::Kind::kIndex:
    case Factor::Kind::kReciprocalIndex:
      return solver_.proves_quickly(assumptions_, at_least(f.index, 1));
    case Factor::Kind::kFunction: {
      if (f.law && f.law->exponential) return true;
      if (f.name != "reciprocal") return false;
      const Factor* divisor = only_factor(f.arguments[0]);
      return divisor && is_positive(*divisor);
    }
    case Factor::Kind::kAccess:
    case Factor::Kind::kMaximum:
      break;
  }
  return false;
}

bool Normalizer::is_never_empty(const std::vector<MaximumElement>& elements) {
  std::vector<Existence> some;
  for (const MaximumElement& e : elements) some.push_back({e.bound, e.guards});
  return solver_.same_cover(assumptions_, some, {{}}) == Answer::kProved;
}

// With 1/0 = 0 (equivalent to leaving it undefined for everything below), 1/(a b) = (1/a) (1/b) and 1/(1/a) = a hold for all a
// and b. a (1/a) = 1 does not, and is only used for sizes (at least 1) and exponentials.
Sum Normalizer::reciprocal(const Sum& sum) {
  Sum result;
  for (const Case& c : cases(simplified(sum))) {
    Sum divisor = c.value, value = constant(1);
    for (const Factor& f : take_common_factors(divisor)) value = product(value, reciprocal_of(f));
    Rational scale = 0;
    for (const Term& t : divisor) scale = common_divisor(scale, t.coefficient);
    if (divisor.size() == 1) scale = divisor[0].coefficient;
    if (!scale.is_zero())
      value = scaled(std::move(value), scale.reciprocal()), divisor = scaled(std::move(divisor), scale.reciprocal());
    const bool is_one = divisor.size() == 1 && is_plain(divisor[0]) && divisor[0].factors.empty();
    if (!is_one) value = product(value, single(function("reciprocal", nullptr, {divisor})));
    for (Term& t : with_guards(value, c.guards)) result.push_back(std::move(t));
  }
  return result;
}

// (SUM f(x)) (1 / SUM f(x)) = 1 for an exponential f and a nonempty set, since the sum is positive. Products are expanded, so
// each term of the divisor must be found with the same remaining factors.
Sum Normalizer::without_ratios(const Sum& sum) {
  for (std::size_t i = 0; i < sum.size(); ++i)
    for (std::size_t k = 0; k < sum[i].factors.size(); ++k) {
      const Factor& divisor = sum[i].factors[k];
      if (!is_reciprocal(divisor) || divisor.arguments[0].empty()) continue;
      Sum others = sum;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      const auto quotient = ratio_of(sum[i], divisor, others);
      if (!quotient || !is_positive_sum(divisor.arguments[0])) continue;
      others.push_back(*quotient);
      return without_ratios(others);
    }
  return sum;
}

// Is the sum nonempty, with only positive terms?
bool Normalizer::is_positive_sum(const Sum& sum) {
  std::vector<MaximumElement> sets;
  for (const Term& t : sum) {
    if (!(t.coefficient.numerator() > 0) || t.factors.empty()) return false;
    if (!std::all_of(t.factors.begin(), t.factors.end(), [](const Factor& f) { return f.law && f.law->exponential; }))
      return false;
    sets.push_back({t.bound, t.guards, {}});
  }
  return is_never_empty(sets);
}

}  // namespace rewright::proof
