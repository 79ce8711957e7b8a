#include "graph/size_expressions.h"

#include <algorithm>
#include <utility>

namespace rewright::graph {

std::size_t SizeExpressions::add(const Index& expression) {
  const auto [at, is_new] = numbers_.emplace(expression, all_.size());
  if (is_new) {
    all_.push_back(expression);
    sums_.push_back(sum_of(expression));
  }
  return at->second;
}

SizeExpressions::Sum SizeExpressions::sum_of(const Index& expression) {
  Sum sum{expression.constant_term(), {}};
  if (expression.is_constant()) return sum;
  for (const Monomial& monomial : expression.polynomial()->monomials) {
    Sum::Term term{monomial.coefficient, {}};
    for (const AtomPointer& factor : monomial.factors) term.atoms.push_back(number_of(factor));
    sum.terms.push_back(std::move(term));
  }
  return sum;
}

std::size_t SizeExpressions::number_of(const AtomPointer& atom) {
  if (const auto known = atom_numbers_.find(atom); known != atom_numbers_.end()) return known->second;
  Known added{atom, {}};
  for (std::size_t k = 0; k < std::min<std::size_t>(2, atom->arguments.size()); ++k)
    added.arguments[k] = sum_of(atom->arguments[k]);
  atoms_.push_back(std::move(added));
  return atom_numbers_.emplace(atom, atoms_.size() - 1).first->second;
}

std::optional<std::int64_t> SizeExpressions::value_of(const Sum& sum, const Numbers& atoms) {
  std::int64_t result = sum.constant;
  for (const Sum::Term& term : sum.terms) {
    std::int64_t product = term.coefficient;
    for (const std::size_t atom : term.atoms)
      if (!atoms[atom] || __builtin_mul_overflow(product, *atoms[atom], &product)) return std::nullopt;
    if (__builtin_add_overflow(result, product, &result)) return std::nullopt;
  }
  return result;
}

std::optional<std::int64_t> SizeExpressions::value_of(const Known& known, const Numbers& atoms, const Substitution& sizes) {
  if (const std::optional<Index> given = sizes(*known.atom)) return given->constant();
  if (known.atom->arguments.size() != 2) return std::nullopt;
  const auto a = value_of(known.arguments[0], atoms), b = value_of(known.arguments[1], atoms);
  if (!a || !b) return std::nullopt;
  switch (known.atom->kind) {
    case Atom::Kind::kFloorDiv:
      return *b > 0 ? floor_div(*a, *b).constant() : std::nullopt;
    case Atom::Kind::kMod:
      return *b > 0 ? mod(*a, *b).constant() : std::nullopt;
    case Atom::Kind::kMin:
      return std::min(*a, *b);
    case Atom::Kind::kMax:
      return std::max(*a, *b);
    default:
      return std::nullopt;
  }
}

Indices SizeExpressions::values(const Substitution& sizes) const {
  Numbers atoms;
  atoms.reserve(atoms_.size());
  for (const Known& known : atoms_) atoms.push_back(value_of(known, atoms, sizes));
  Indices result;
  result.reserve(all_.size());
  for (std::size_t n = 0; n < all_.size(); ++n) {
    const auto value = value_of(sums_[n], atoms);
    result.push_back(value ? Index(*value) : substitute(all_[n], sizes));  // which names a size that is too large
  }
  return result;
}

}  // namespace rewright::graph
