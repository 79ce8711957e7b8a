#include "rules/taso/sizes.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace rewright::rules::taso {

namespace {

std::vector<Monomial> monomials(const Index& index) {
  return index.is_constant() ? std::vector<Monomial>{} : index.polynomial()->monomials;
}

bool same(const AtomPointer& a, const AtomPointer& b) { return compare(*a, *b) == 0; }

Index to_index(const Monomial& m) {
  Index result = m.coefficient;
  for (const AtomPointer& f : m.factors) result *= Index::atom(f);
  return result;
}

bool mentions(const Index& index, const std::string& symbol) {
  bool found = false;
  for_each_atom(index, [&](const Atom& a) { found |= a.kind == Atom::Kind::kSymbol && a.name == symbol; });
  return found;
}

// Symbols are sizes of at least 1, so a common factor of all terms of an equation cancels.
Index without_common_factors(const Index& difference) {
  const std::vector<Monomial> terms = monomials(difference);
  if (terms.empty()) return difference;
  std::int64_t divisor = std::abs(difference.constant_term());
  for (const Monomial& m : terms) divisor = std::gcd(divisor, m.coefficient);
  std::vector<AtomPointer> common;
  if (difference.constant_term() == 0)
    for (const AtomPointer& f : terms[0].factors) {
      if (f->kind != Atom::Kind::kSymbol) continue;
      const auto power = [&](const std::vector<AtomPointer>& factors) {
        return std::count_if(factors.begin(), factors.end(), [&](const AtomPointer& g) { return same(f, g); });
      };
      if (std::all_of(terms.begin(), terms.end(), [&](const Monomial& m) { return power(m.factors) > power(common); }))
        common.push_back(f);
    }
  Index result = difference.constant_term() / divisor;
  for (Monomial m : terms) {
    m.coefficient /= divisor;
    for (const AtomPointer& f : common)
      m.factors.erase(std::find_if(m.factors.begin(), m.factors.end(), [&](const AtomPointer& g) { return same(f, g); }));
    result += to_index(m);
  }
  return result;
}

// Is the sum of sizes (each at least 1) positive because all of its coefficients are?
bool is_positive(const Index& index) {
  std::int64_t least = index.constant_term();
  for (const Monomial& m : monomials(index)) {
    const bool sizes =
        std::all_of(m.factors.begin(), m.factors.end(), [](const AtomPointer& f) { return f->kind == Atom::Kind::kSymbol; });
    if (!sizes || m.coefficient < 0) return false;
    least += m.coefficient;
  }
  return least > 0;
}

}  // namespace

Index Sizes::unknown(const std::string& letter) {
  std::string number = std::to_string(count_++);
  number.insert(0, 6 - std::min<std::size_t>(6, number.size()), '0');
  return Index::symbol(letter + "#" + number);
}

std::string Sizes::letter(const std::string& name) const { return name.substr(0, name.find('#')); }

Index Sizes::resolved(const Index& index) const {
  return substitute(index, [&](const Atom& a) -> std::optional<Index> {
    if (a.kind == Atom::Kind::kSymbol)
      for (const auto& [symbol, value] : solved_)
        if (symbol == a.name) return value;
    return std::nullopt;
  });
}

Indices Sizes::resolved(const Indices& indices) const {
  Indices result;
  for (const Index& i : indices) result.push_back(resolved(i));
  return result;
}

bool Sizes::solve(const Equation& equation) {
  const Index difference = without_common_factors(resolved(equation.difference));
  if (difference.is_constant() ? difference.value() != 0 : is_positive(difference) || is_positive(-difference))
    throw Error(ErrorCode::kBadInput, "it is ill-typed: " + equation.what);
  if (difference.is_constant()) return true;
  // The newest symbol that the equation expresses as a sum of others.
  std::string best;
  Index value;
  for (const Monomial& m : monomials(difference)) {
    if (m.factors.size() != 1 || m.factors[0]->kind != Atom::Kind::kSymbol || std::abs(m.coefficient) != 1) continue;
    const std::string& symbol = m.factors[0]->name;
    const Index rest = difference - to_index(m), candidate = m.coefficient == 1 ? -rest : rest;
    if (mentions(rest, symbol) || !is_positive(candidate)) continue;
    if (best.empty() || symbol.substr(symbol.find('#')) > best.substr(best.find('#'))) best = symbol, value = candidate;
  }
  if (best.empty()) return false;
  for (auto& [symbol, known] : solved_)
    known = substitute(known, [&](const Atom& a) -> std::optional<Index> {
      return a.kind == Atom::Kind::kSymbol && a.name == best ? std::optional(value) : std::nullopt;
    });
  solved_.emplace_back(best, value);
  return true;
}

// Retries deferred equations, which may now be solvable.
void Sizes::settle() {
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < kept_.size() && !changed; ++i) {
      const Equation equation = kept_[i];
      if (!solve(equation)) continue;
      kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
      changed = true;
    }
  }
}

void Sizes::equate(const Index& a, const Index& b, bool implied, const std::string& what) {
  const Equation equation{a - b, implied, what};
  if (solve(equation))
    settle();
  else
    kept_.push_back(equation);
}

void Sizes::require(const Condition& condition) { required_.push_back(condition); }

std::vector<Condition> Sizes::conditions() const {
  std::vector<Condition> result;
  const auto add = [&](const Condition& c) {
    if (c.decided() == false) throw Error(ErrorCode::kBadInput, "it is ill-typed: " + c.to_string() + " is needed");
    if (!c.decided() && std::find(result.begin(), result.end(), c) == result.end()) result.push_back(c);
  };
  for (const Equation& e : kept_) {
    if (e.implied) continue;
    // Positive terms go to the left, the others to the right.
    const Index difference = resolved(e.difference);
    Index left = std::max<std::int64_t>(difference.constant_term(), 0), right = left - difference.constant_term();
    for (const Monomial& m : monomials(difference)) {
      const Index term = to_index(m);
      if (m.coefficient > 0)
        left += term;
      else
        right -= term;
    }
    add(equal(left, right));
  }
  for (const Condition& c : required_) add({resolved(c.left), c.relation, resolved(c.right)});
  return result;
}

}  // namespace rewright::rules::taso
