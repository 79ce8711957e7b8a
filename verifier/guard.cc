#include "verifier/guard.h"

#include <algorithm>

namespace rewright::proof {

std::optional<bool> Guard::decided() const {
  if (kind == Kind::kAll || kind == Kind::kAny) {
    bool open = false;
    for (const Guard& part : parts) {
      const auto d = part.decided();
      if (!d) open = true;
      if (d && *d == (kind == Kind::kAny)) return *d;
    }
    if (open) return std::nullopt;
    return kind == Kind::kAll;
  }
  const auto c = value.constant();
  if (!c) return std::nullopt;
  return kind == Kind::kNonNegative ? *c >= 0 : kind == Kind::kZero ? *c == 0 : *c != 0;
}

Guard Guard::negated() const {
  switch (kind) {
    case Kind::kNonNegative:
      return non_negative(-value - 1);
    case Kind::kZero:
      return non_zero(value);
    case Kind::kNonZero:
      return zero(value);
    default:
      break;
  }
  Guard result{kind == Kind::kAll ? Kind::kAny : Kind::kAll, {}, {}};
  for (const Guard& part : parts) result.parts.push_back(part.negated());
  return result;
}

std::string Guard::to_string() const {
  switch (kind) {
    case Kind::kNonNegative:
      return value.to_string() + " >= 0";
    case Kind::kZero:
      return value.to_string() + " == 0";
    case Kind::kNonZero:
      return value.to_string() + " != 0";
    default:
      break;
  }
  std::string text;
  for (const Guard& part : parts) text += (text.empty() ? "" : kind == Kind::kAll ? " and " : " or ") + part.to_string();
  return "(" + text + ")";
}

namespace {

// A polynomial and its negative have the same zeros: the first in order represents both.
Index signless(Index value) {
  Index negative = -value;
  return Index::compare(negative, value) < 0 ? negative : value;
}

}  // namespace

Guard non_negative(Index value) { return {Guard::Kind::kNonNegative, std::move(value), {}}; }
Guard zero(Index value) { return {Guard::Kind::kZero, signless(std::move(value)), {}}; }
Guard non_zero(Index value) { return {Guard::Kind::kNonZero, signless(std::move(value)), {}}; }
Guard any_of(Guards parts) { return {Guard::Kind::kAny, {}, std::move(parts)}; }

Guard guard(const Condition& c) {
  switch (c.relation) {
    case Condition::Relation::kEqual:
      return zero(c.left - c.right);
    case Condition::Relation::kNotEqual:
      return non_zero(c.left - c.right);
    case Condition::Relation::kLess:
      return below(c.left, c.right);
    case Condition::Relation::kLessEqual:
      break;
  }
  return at_least(c.right, c.left);
}

Guards within(const Index& index, const Index& size) { return {non_negative(index), below(index, size)}; }

namespace {

bool same_variable(const Atom& a, const Atom& b) {
  return a.kind == b.kind && (a.kind == Atom::Kind::kBound    ? a.id == b.id
                              : a.kind == Atom::Kind::kSymbol ? a.name == b.name
                                                              : compare(a, b) == 0);
}

}  // namespace

Index replaced(const Index& index, const Replacements& replacements) {
  if (index.is_constant() || replacements.empty()) return index;
  return substitute(index, [&](const Atom& atom) -> std::optional<Index> {
    for (const auto& [from, to] : replacements)
      if (same_variable(*from.as_atom(), atom)) return to;
    return std::nullopt;
  });
}

Indices replaced(const Indices& indices, const Replacements& replacements) {
  Indices result;
  for (const Index& i : indices) result.push_back(replaced(i, replacements));
  return result;
}

Guard replaced(const Guard& g, const Replacements& replacements) {
  switch (g.kind) {
    case Guard::Kind::kNonNegative:
      return non_negative(replaced(g.value, replacements));
    case Guard::Kind::kZero:
      return zero(replaced(g.value, replacements));
    case Guard::Kind::kNonZero:
      return non_zero(replaced(g.value, replacements));
    default:
      return {g.kind, {}, replaced(g.parts, replacements)};
  }
}

Guards replaced(const Guards& guards, const Replacements& replacements) {
  Guards result;
  for (const Guard& g : guards) result.push_back(replaced(g, replacements));
  return result;
}

bool occurs(const Index& variable, const Index& in) {
  bool found = false;
  const Atom& wanted = *variable.as_atom();
  if (!in.is_constant()) for_each_atom(in, [&](const Atom& atom) { found = found || same_variable(wanted, atom); });
  return found;
}

bool occurs(const Index& variable, const Guard& in) {
  if (in.kind != Guard::Kind::kAll && in.kind != Guard::Kind::kAny) return occurs(variable, in.value);
  return std::any_of(in.parts.begin(), in.parts.end(), [&](const Guard& part) { return occurs(variable, part); });
}

int unit_coefficient(const Index& polynomial, const Index& variable) {
  if (polynomial.is_constant()) return 0;
  const Atom& wanted = *variable.as_atom();
  for (const Monomial& m : polynomial.polynomial()->monomials) {
    if (m.factors.size() != 1 || !same_variable(*m.factors[0], wanted)) continue;
    if (m.coefficient != 1 && m.coefficient != -1) return 0;
    return occurs(variable, polynomial - Index(m.coefficient) * variable) ? 0 : static_cast<int>(m.coefficient);
  }
  return 0;
}

Index solved_for(const Index& polynomial, const Index& variable) {
  const int c = unit_coefficient(polynomial, variable);
  return (Index(c) * variable - polynomial) * Index(c);
}

std::optional<Index> isolated(const Index& polynomial) {
  if (polynomial.is_constant()) return std::nullopt;
  for (const Monomial& m : polynomial.polynomial()->monomials) {
    if (m.factors.size() != 1 || m.factors[0]->kind != Atom::Kind::kSymbol) continue;
    const Index variable = Index::atom(m.factors[0]);
    if (unit_coefficient(polynomial, variable) != 0) return variable;
  }
  return std::nullopt;
}

bool surely_implies(const Guard& a, const Guard& b) {
  if (a == b || b.decided() == true) return true;
  if (b.kind == Guard::Kind::kNonZero) return surely_contradictory({a, zero(b.value)});
  if (b.kind != Guard::Kind::kNonNegative) return false;
  const auto at_least = [&](const Index& bound) {
    const auto difference = (b.value - bound).constant();
    return difference && *difference >= 0;
  };
  if (a.kind == Guard::Kind::kZero) return at_least(a.value) || at_least(-a.value);
  return a.kind == Guard::Kind::kNonNegative && at_least(a.value);
}

bool surely_positive(const Index& index, const Guards& assumptions) {
  if (const auto c = index.constant()) return *c >= 1;
  if (index.constant_term() < 0) return false;
  const auto positive = [&](const AtomPointer& atom) {
    return std::any_of(assumptions.begin(), assumptions.end(), [&](const Guard& g) {
      if (g.kind != Guard::Kind::kNonNegative || g.value.constant_term() != -1) return false;
      const Index shifted = g.value + 1;
      return shifted.as_atom() && compare(*shifted.as_atom(), *atom) == 0;
    });
  };
  for (const Monomial& m : index.polynomial()->monomials)
    if (m.coefficient < 1 || !std::all_of(m.factors.begin(), m.factors.end(), positive)) return false;
  return true;
}

bool surely_contradictory(const Guards& guards) {
  const auto negative = [](const Index& sum) { return sum.is_constant() && sum.value() < 0; };
  const auto contradict = [&](const Guard& a, const Guard& b) {
    using Kind = Guard::Kind;
    if (a.kind == Kind::kZero && b.kind == Kind::kNonZero) return a.value == b.value || a.value == -b.value;
    if (a.kind == Kind::kZero && b.kind == Kind::kZero) {
      const Index sum = a.value + b.value, difference = a.value - b.value;
      return (sum.is_constant() && sum.value() != 0) || (difference.is_constant() && difference.value() != 0);
    }
    if (b.kind != Kind::kNonNegative) return false;
    if (a.kind == Kind::kZero) return negative(a.value + b.value) || negative(b.value - a.value);
    return a.kind == Kind::kNonNegative && negative(a.value + b.value);
  };
  for (std::size_t i = 0; i < guards.size(); ++i) {
    if (guards[i].decided() == false) return true;
    for (std::size_t j = i + 1; j < guards.size(); ++j)
      if (contradict(guards[i], guards[j]) || contradict(guards[j], guards[i])) return true;
  }
  return false;
}

bool same_guards(const Guards& a, const Guards& b) {
  const auto subset = [](const Guards& x, const Guards& y) {
    return std::all_of(x.begin(), x.end(), [&](const Guard& g) { return std::find(y.begin(), y.end(), g) != y.end(); });
  };
  return subset(a, b) && subset(b, a);
}

}  // namespace rewright::proof
