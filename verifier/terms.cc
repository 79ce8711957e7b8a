#include "verifier/terms.h"

#include <algorithm>
#include <optional>
#include <set>

#include "verifier/number_laws.h"

namespace rewright::proof {

std::optional<Rational> number(const Sum& sum) {
  if (sum.empty()) return Rational(0);
  const bool only = sum.size() == 1 && sum[0].bound.empty() && sum[0].guards.empty() && sum[0].factors.empty();
  return only ? std::optional(sum[0].coefficient) : std::nullopt;
}

Sum with_fresh_names(Sum sum) {
  for (Term& t : sum) {
    Replacements names;
    for (const Index& v : t.bound) names.emplace_back(v, Index::fresh(v.as_atom()->name));
    t = replaced(t, names);
    t.bound = replaced(t.bound, names);
  }
  return sum;
}

namespace {

constexpr std::size_t kMostVariables = 6;  // of a product that is searched for a sum

// p >= 0 and -p >= 0 become p = 0.
void find_equations(Guards& guards) {
  for (std::size_t i = 0; i < guards.size(); ++i) {
    if (guards[i].kind != Guard::Kind::kNonNegative) continue;
    for (std::size_t j = i + 1; j < guards.size(); ++j) {
      if (guards[j].kind != Guard::Kind::kNonNegative || !(guards[i].value + guards[j].value == Index(0))) continue;
      guards[i] = zero(guards[i].value);
      guards.erase(guards.begin() + static_cast<std::ptrdiff_t>(j));
      break;
    }
  }
}

// False if the term is 0.
bool simplify(Term& term) {
  for (;;) {
    Guards guards;
    for (const Guard& g : term.guards)
      if (g.decided() != true && std::find(guards.begin(), guards.end(), g) == guards.end()) guards.push_back(g);
    find_equations(guards);
    term.guards = std::move(guards);
    if (term.coefficient.is_zero() || surely_contradictory(term.guards)) return false;
    bool eliminated = false;
    for (const Guard& g : term.guards) {
      if (g.kind != Guard::Kind::kZero) continue;
      const auto variable =
          std::find_if(term.bound.begin(), term.bound.end(), [&](const Index& v) { return unit_coefficient(g.value, v) != 0; });
      if (variable == term.bound.end()) continue;
      const Index name = *variable, value = solved_for(g.value, name);
      term.bound.erase(variable);
      term = replaced(term, {{name, value}});
      eliminated = true;
      break;
    }
    if (!eliminated) return true;
  }
}

// Multiplies index factors into one polynomial, moving constants into the coefficient.
void merge_indices(Term& term) {
  Index value = 1, divisor = 1;
  std::vector<Factor> others;
  for (Factor& f : term.factors) {
    if (f.kind == Factor::Kind::kIndex)
      value *= f.index;
    else if (f.kind == Factor::Kind::kReciprocalIndex)
      divisor *= f.index;
    else
      others.push_back(std::move(f));
  }
  const auto extract = [](Index& index) -> Rational {
    if (const auto c = index.constant()) {
      index = 1;
      return *c;
    }
    if (index.constant_term() != 0 || index.polynomial()->monomials.size() != 1) return 1;
    const std::int64_t c = index.polynomial()->monomials[0].coefficient;
    index = floor_div(c < 0 ? -index : index, c < 0 ? -c : c);
    return c;
  };
  term.coefficient = term.coefficient * extract(value);
  if (!(divisor == Index(0))) term.coefficient = term.coefficient * extract(divisor).reciprocal();
  if (!(value == Index(1))) others.push_back({.kind = Factor::Kind::kIndex, .index = value});
  if (!(divisor == Index(1))) others.push_back({.kind = Factor::Kind::kReciprocalIndex, .index = divisor});
  term.factors = std::move(others);
}

// Renames bound variables uniformly.
Sum with_uniform_names(const Sum& sum, int& next) {
  Sum result;
  const auto names_of = [&](const Indices& bound) {
    Replacements names;
    for (const Index& v : bound) names.emplace_back(v, Index::symbol("#" + std::to_string(next++)));
    return names;
  };
  for (const Term& term : sum) {
    Term t = replaced(term, names_of(term.bound));
    t.bound.clear();
    for (Factor& f : t.factors) {
      for (Sum& argument : f.arguments) argument = with_uniform_names(argument, next);
      for (MaximumElement& e : f.elements) {
        const Replacements names = names_of(e.bound);
        e = {{}, replaced(e.guards, names), with_uniform_names(replaced(e.value, names), next)};
      }
    }
    result.push_back(std::move(t));
  }
  return result;
}

// Are two sums with uniform names equal? Compared without texts, since variables bound outside may share a name.
bool identical(const Sum& a, const Sum& b) {
  const auto same_element = [](const MaximumElement& x, const MaximumElement& y) {
    return x.guards == y.guards && identical(x.value, y.value);
  };
  const auto same_factor = [&](const Factor& x, const Factor& y) {
    return x.kind == y.kind && x.input == y.input && x.position == y.position && x.index == y.index && x.name == y.name &&
           x.law == y.law &&
           std::equal(x.arguments.begin(), x.arguments.end(), y.arguments.begin(), y.arguments.end(), identical) &&
           std::equal(x.elements.begin(), x.elements.end(), y.elements.begin(), y.elements.end(), same_element);
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const Term& x, const Term& y) {
    return x.coefficient == y.coefficient && x.guards == y.guards &&
           std::equal(x.factors.begin(), x.factors.end(), y.factors.begin(), y.factors.end(), same_factor);
  });
}

bool mentions(const Term& term, const Indices& variables) {
  Replacements names;
  for (const Index& v : variables) names.emplace_back(v, Index::symbol("!"));
  return to_string(Sum{replaced(term, names)}) != to_string(Sum{term});
}
bool mentions(const Factor& factor, const Indices& variables) { return mentions(Term{1, {}, {}, {factor}, {}}, variables); }

Term as_term(const MaximumElement& e) { return {1, e.bound, e.guards, {function("element", nullptr, {e.value})}, {}}; }
// f(x) (1 / f(x)) = 1 if f is never 0; so for a number that is not 0.
void cancel_never_zero(Term& term) {
  const auto divided = [](const Factor& f) -> const Factor* {
    if (f.kind != Factor::Kind::kFunction || f.name != "reciprocal" || f.arguments[0].size() != 1) return nullptr;
    const Term& t = f.arguments[0][0];
    const bool single = t.factors.size() == 1 && t.bound.empty() && t.guards.empty() && t.coefficient == Rational(1);
    const bool is_never_zero =
        single && ((t.factors[0].law && t.factors[0].law->exponential) || number_of_bits(t.factors[0]).value_or(0) != 0);
    return is_never_zero ? &t.factors[0] : nullptr;
  };
  for (std::size_t i = 0; i < term.factors.size(); ++i) {
    const Factor* below = divided(term.factors[i]);
    if (!below) continue;
    for (std::size_t j = 0; j < term.factors.size(); ++j) {
      if (term.factors[j].law != below->law || !is_same(term.factors[j], *below)) continue;
      term.factors.erase(term.factors.begin() + static_cast<std::ptrdiff_t>(std::max(i, j)));
      term.factors.erase(term.factors.begin() + static_cast<std::ptrdiff_t>(std::min(i, j)));
      return cancel_never_zero(term);
    }
  }
}

// The sum's only factor, if it has nothing else.
const Factor* only_factor_of(const Sum& sum) {
  const bool only = sum.size() == 1 && sum[0].bound.empty() && sum[0].guards.empty() && sum[0].coefficient == Rational(1) &&
                    sum[0].factors.size() == 1;
  return only ? &sum[0].factors[0] : nullptr;
}

// |a| |a| = a a; sqrt(a) sqrt(a) = a wherever there is a root, and (1 / sqrt(a))^2 = 1 / a, too. A truth value is 0 or 1.
std::optional<Sum> square_of(const Factor& f) {
  if (f.name == "reciprocal") {
    const Factor* root = only_factor_of(f.arguments[0]);
    if (!root || root->law != &functions::sqrt) return std::nullopt;
    if (const auto square = number(root->arguments[0]); square && square->numerator() > 0)
      return constant(square->reciprocal());
    const Factor* inside = only_factor_of(root->arguments[0]);
    const bool stays = inside && (inside->kind == Factor::Kind::kAccess || inside->kind == Factor::Kind::kUnknown);
    return stays ? std::optional(single(function("reciprocal", nullptr, root->arguments))) : std::nullopt;
  }
  if (!f.law) return std::nullopt;
  if (!f.law->returns_argument_scalar && f.law->result == Scalar::kBoolean) return single(f);
  if (f.law == &functions::sqrt) return f.arguments[0];
  if (f.law == &functions::abs) return product(f.arguments[0], with_fresh_names(f.arguments[0]));
  return std::nullopt;
}

// m = max{a; b} equals a or b, so m m = (a + b) m - a b.
Sum without_squares(const Term& term) {
  for (std::size_t i = 0; i < term.factors.size(); ++i) {
    const Factor& f = term.factors[i];
    if (const std::optional<Sum> square = f.kind == Factor::Kind::kFunction ? square_of(f) : std::nullopt) {
      const auto again = std::find_if(term.factors.begin() + static_cast<std::ptrdiff_t>(i) + 1, term.factors.end(),
                                      [&](const Factor& g) { return is_same(f, g); });
      if (again == term.factors.end()) continue;
      Term rest = term;
      rest.factors.erase(rest.factors.begin() + (again - term.factors.begin()));
      rest.factors.erase(rest.factors.begin() + static_cast<std::ptrdiff_t>(i));
      return product({rest}, *square);
    }
    if (f.elements.size() != 2 || !is_plain(f.elements[0]) || !is_plain(f.elements[1])) continue;
    for (std::size_t j = i + 1; j < term.factors.size(); ++j) {
      if (!is_same(term.factors[j], f)) continue;
      const Sum &a = f.elements[0].value, &b = f.elements[1].value;
      Term rest = term;
      rest.factors.erase(rest.factors.begin() + static_cast<std::ptrdiff_t>(j));
      rest.factors.erase(rest.factors.begin() + static_cast<std::ptrdiff_t>(i));
      const Sum once = product(single(f), joined(with_fresh_names(a), with_fresh_names(b)));
      const Sum never = product(with_fresh_names(a), with_fresh_names(b));
      return product({rest}, joined(once, scaled(never, -1)));
    }
  }
  return {term};
}

}  // namespace

bool is_same(const Term& a, const Term& b) {
  int x = 0, y = 0;
  return a.bound.size() == b.bound.size() && identical(with_uniform_names({a}, x), with_uniform_names({b}, y));
}

bool is_same(const Factor& a, const Factor& b) { return is_same(Term{1, {}, {}, {a}, {}}, Term{1, {}, {}, {b}, {}}); }

bool same_value(const Sum& a, const Sum& b) { return is_same(function("", nullptr, {a}), function("", nullptr, {b})); }

std::vector<Sum> alternatives(const Sum& sum, bool& is_maximum) {
  if (sum.size() != 1 || !sum[0].bound.empty() || !sum[0].guards.empty() || sum[0].factors.size() != 1) return {};
  std::vector<Sum> values;
  for (const MaximumElement& e : sum[0].factors[0].elements) {
    if (!is_plain(e)) return {};
    values.push_back(scaled(e.value, sum[0].coefficient));
  }
  is_maximum = sum[0].coefficient.numerator() > 0;
  return values;
}

bool take_sum(Term& term, const Term& sum) {
  if (sum.bound.size() > term.bound.size() || term.bound.size() > kMostVariables) return false;
  std::vector<std::size_t> order(term.bound.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  do {
    Replacements names;
    Indices taken;
    for (std::size_t i = 0; i < sum.bound.size(); ++i) {
      taken.push_back(term.bound[order[i]]);
      names.emplace_back(sum.bound[i], taken.back());
    }
    const Term wanted = replaced(sum, names);
    Term rest = term;
    bool is_multiple = true;
    for (const Guard& g : wanted.guards) is_multiple = is_multiple && std::erase(rest.guards, g) > 0;
    for (const Factor& f : wanted.factors) {
      const auto place = std::find_if(rest.factors.begin(), rest.factors.end(), [&](const Factor& g) { return is_same(f, g); });
      is_multiple = is_multiple && place != rest.factors.end();
      if (is_multiple) rest.factors.erase(place);
    }
    rest.bound.clear();
    if (!is_multiple || mentions(rest, taken)) continue;
    for (const Index& v : term.bound)
      if (std::find(taken.begin(), taken.end(), v) == taken.end()) rest.bound.push_back(v);
    term = std::move(rest);
    return true;
  } while (std::next_permutation(order.begin(), order.end()));
  return false;
}

std::optional<MaximumElement> simplified(const MaximumElement& element) {
  const Sum simple = simplified({as_term(element)});
  if (simple.empty()) return std::nullopt;
  return MaximumElement{simple[0].bound, simple[0].guards, simple[0].factors[0].arguments[0]};
}

void drop_repeated(std::vector<MaximumElement>& elements) {
  // Are all values of `a` also values of `b`, or is `a` a smaller number?
  const auto covered = [&](const MaximumElement& a, const MaximumElement& b) {
    if (!is_plain(b)) return is_same(as_term(a), as_term(b));
    const Term value = as_term({{}, {}, a.value});
    if (const auto x = number(a.value), y = number(b.value); x && y) return !((*x + -*y).numerator() > 0);
    return !mentions(value, a.bound) && is_same(value, as_term(b));
  };
  for (std::size_t i = 0; i < elements.size(); ++i)
    for (std::size_t j = 0; j < elements.size(); ++j) {
      if (i == j || !covered(elements[j], elements[i])) continue;
      elements.erase(elements.begin() + static_cast<std::ptrdiff_t>(j));
      if (j < i) --i;
      --j;
    }
}

std::vector<Factor> take_common_factors(Sum& sum) {
  std::vector<Factor> common;
  if (sum.empty()) return common;
  for (std::size_t i = 0; i < sum[0].factors.size();) {
    const Factor f = sum[0].factors[i];
    std::vector<std::size_t> places;  // by term
    for (const Term& t : sum)
      for (std::size_t k = 0; k < t.factors.size(); ++k)
        if (!mentions(t.factors[k], t.bound) && is_same(t.factors[k], f)) {
          places.push_back(k);
          break;
        }
    if (places.size() < sum.size()) {
      ++i;
      continue;
    }
    common.push_back(f);
    for (std::size_t n = 0; n < sum.size(); ++n)
      sum[n].factors.erase(sum[n].factors.begin() + static_cast<std::ptrdiff_t>(places[n]));
  }
  return common;
}

std::vector<Factor> take_common_factors(std::vector<MaximumElement>& elements,
                                        const std::function<bool(const Factor&)>& wanted) {
  std::vector<Factor> common;
  const auto first = std::find_if(elements.begin(), elements.end(), [](const MaximumElement& e) { return !e.value.empty(); });
  if (first == elements.end()) return common;
  for (std::size_t i = 0; i < first->value[0].factors.size();) {
    const Factor f = first->value[0].factors[i];
    std::vector<std::pair<Term*, std::size_t>> places;
    bool everywhere = true;
    for (MaximumElement& e : elements)
      for (Term& t : e.value) {
        const auto place = std::find_if(t.factors.begin(), t.factors.end(), [&](const Factor& g) {
          return !mentions(g, t.bound) && !mentions(g, e.bound) && is_same(g, f);
        });
        everywhere = everywhere && place != t.factors.end();
        if (everywhere) places.emplace_back(&t, static_cast<std::size_t>(place - t.factors.begin()));
      }
    if (!everywhere || !wanted(f)) {
      ++i;
      continue;
    }
    common.push_back(f);
    for (const auto& [t, k] : places) t->factors.erase(t->factors.begin() + static_cast<std::ptrdiff_t>(k));
  }
  return common;
}

Sum take_common_addends(std::vector<MaximumElement>& elements) {
  Sum common;
  if (elements.empty()) return common;
  for (std::size_t i = 0; i < elements[0].value.size();) {
    const Term t = elements[0].value[i];
    std::vector<std::size_t> places;  // by value
    for (const MaximumElement& e : elements)
      for (std::size_t k = 0; k < e.value.size(); ++k)
        if (!mentions(e.value[k], e.bound) && is_same(e.value[k], t)) {
          places.push_back(k);
          break;
        }
    if (places.size() < elements.size()) {
      ++i;
      continue;
    }
    common.push_back(t);
    for (std::size_t n = 0; n < elements.size(); ++n)
      elements[n].value.erase(elements[n].value.begin() + static_cast<std::ptrdiff_t>(places[n]));
  }
  return common;
}

Sum simplified(const Sum& sum) {
  Sum result;
  for (Term term : sum) {
    merge_indices(term);
    if (simplify(term)) result.push_back(std::move(term));
  }
  return result;
}

Sum product(const Sum& a, const Sum& b) {
  Sum result;
  for (const Term& x : a)
    for (const Term& y : b) {
      Term t = x;
      t.coefficient = x.coefficient * y.coefficient;
      t.bound.insert(t.bound.end(), y.bound.begin(), y.bound.end());
      t.guards.insert(t.guards.end(), y.guards.begin(), y.guards.end());
      t.factors.insert(t.factors.end(), y.factors.begin(), y.factors.end());
      cancel_never_zero(t);
      for (Term& part : without_squares(t)) result.push_back(std::move(part));
    }
  return simplified(result);
}

Sum scaled(Sum sum, const Rational& factor) {
  if (factor.is_zero()) return {};
  for (Term& t : sum) t.coefficient = t.coefficient * factor;
  return sum;
}

Sum with_guards(const Sum& sum, const Guards& guards, const Indices& bound) {
  Sum result;
  for (const Term& term : sum) {
    Term t = term;
    t.bound.insert(t.bound.begin(), bound.begin(), bound.end());
    t.guards.insert(t.guards.begin(), guards.begin(), guards.end());
    result.push_back(std::move(t));
  }
  return simplified(result);
}

Sum joined(Sum a, const Sum& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Sum constant(const Rational& value) {
  if (value.is_zero()) return {};
  return {Term{value, {}, {}, {}}};
}

Sum single(Factor factor) {
  Term term;
  term.factors.push_back(std::move(factor));
  return {std::move(term)};
}

std::vector<Case> cases(const Sum& sum) {
  const Guard* split = nullptr;
  for (const Term& t : sum) {
    for (const Guard& g : t.guards)
      if (std::none_of(t.bound.begin(), t.bound.end(), [&](const Index& v) { return occurs(v, g); })) {
        split = &g;
        break;
      }
    if (split) break;
  }
  if (!split) return {{{}, sum}};
  std::vector<Case> result;
  for (const Guard& literal : {*split, split->negated()}) {
    const Guard other = literal.negated();
    Sum rest;
    for (const Term& t : sum) {
      Guards all = t.guards;
      all.push_back(literal);
      if (surely_contradictory(all) || std::find(t.guards.begin(), t.guards.end(), other) != t.guards.end()) continue;
      Term kept = t;
      std::erase_if(kept.guards, [&](const Guard& g) { return surely_implies(literal, g); });
      rest.push_back(std::move(kept));
    }
    for (Case& c : cases(rest)) {
      c.guards.insert(c.guards.begin(), literal);
      if (!surely_contradictory(c.guards)) result.push_back(std::move(c));
    }
  }
  return result;
}

Factor function(std::string name, const Function* law, std::vector<Sum> arguments) {
  Factor f{.kind = Factor::Kind::kFunction, .name = std::move(name), .law = law};
  f.arguments = std::move(arguments);
  return f;
}

std::string signature(const Factor& f) {
  switch (f.kind) {
    case Factor::Kind::kAccess:
      return "x" + std::to_string(f.input);
    case Factor::Kind::kIndex:
      return "index";
    case Factor::Kind::kReciprocalIndex:
      return "1/index";
    case Factor::Kind::kUnknown:
      return "'" + f.name + "'";
    case Factor::Kind::kFunction: {
      std::string text = f.name + "(";
      for (const Sum& argument : f.arguments) text += signature(argument) + ",";
      return text + ")";
    }
    case Factor::Kind::kMaximum:
      break;
  }
  std::set<std::string> elements;
  for (const MaximumElement& e : f.elements) elements.insert(signature(e.value));
  std::string text = "max(";
  for (const std::string& e : elements) text += e + ",";
  return text + ")";
}

std::string signature(const Term& term) {
  std::vector<std::string> factors;
  for (const Factor& f : term.factors) factors.push_back(signature(f));
  std::sort(factors.begin(), factors.end());
  std::string text;
  for (const std::string& f : factors) text += f + "*";
  return text;
}

std::string signature(const Sum& sum) {
  std::set<std::string> terms;
  for (const Term& t : sum) terms.insert(signature(t));
  std::string text;
  for (const std::string& t : terms) text += t + "+";
  return text;
}

}  // namespace rewright::proof
