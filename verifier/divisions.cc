#include "verifier/divisions.h"

#include <algorithm>

#include "base/error.h"

namespace rewright::proof {

namespace {

// The quotient of a polynomial that is a multiple of another one with several terms.
std::optional<Index> exact_quotient(Index dividend, const Index& divisor) {
  if (divisor.is_constant() || dividend.is_constant() || divisor.constant_term() != 0) return std::nullopt;
  const Monomial& lead = divisor.polynomial()->monomials.back();
  Index factor = lead.coefficient, quotient = 0;
  for (const AtomPointer& f : lead.factors) factor *= Index::atom(f);
  for (int step = 0; step < 16 && !dividend.is_constant(); ++step) {
    const Monomial& m = dividend.polynomial()->monomials.back();
    Index top = m.coefficient;
    for (const AtomPointer& f : m.factors) top *= Index::atom(f);
    const Index part = floor_div(top, factor);
    if (!(part * factor == top)) return std::nullopt;
    quotient += part;
    dividend -= part * divisor;
  }
  return dividend == Index(0) ? std::optional(quotient) : std::nullopt;
}

}  // namespace

std::optional<Index> exact_multiple(const Index& dividend, const Index& divisor) {
  if (divisor.is_constant() && divisor.value() < 1) return std::nullopt;
  const Index quotient = floor_div(dividend, divisor);
  return quotient * divisor == dividend ? std::optional(quotient) : exact_quotient(dividend, divisor);
}

namespace {

// Splits off multiples of the divisor; the rest may be small, or itself a quotient.
Index quotient_of(const Index& dividend, const Index& divisor, const Guards& assumptions, Solver& solver) {
  if (const auto exact = exact_quotient(dividend, divisor); exact && solver.proves_quickly(assumptions, at_least(divisor, 1)))
    return *exact;
  const Index whole = floor_div(dividend, divisor);
  const Atom* last = nullptr;
  if (!whole.is_constant())
    for (const Monomial& m : whole.polynomial()->monomials)
      for (const AtomPointer& f : m.factors)
        if (m.coefficient == 1 && m.factors.size() == 1 && f->kind == Atom::Kind::kFloorDiv && f->arguments[1] == divisor)
          last = f.get();
  if (!last) return whole;
  const Index rest = last->arguments[0];
  const Index outside =
      whole - Index::atom(std::make_shared<const Atom>(Atom{Atom::Kind::kFloorDiv, 0, {}, {rest, divisor}, nullptr}));
  if (solver.proves_quickly(assumptions, non_negative(rest)) && solver.proves_quickly(assumptions, below(rest, divisor)))
    return outside;
  const Atom* inner = rest.as_atom();
  if (inner && inner->kind == Atom::Kind::kFloorDiv && solver.proves_quickly(assumptions, at_least(inner->arguments[1], 1)) &&
      solver.proves_quickly(assumptions, at_least(divisor, 1)))
    return outside + quotient_of(inner->arguments[0], inner->arguments[1] * divisor, assumptions, solver);
  return whole;
}

}  // namespace

Guard without_offset(const Guard& g, const Guards& assumptions) {
  if (g.kind != Guard::Kind::kNonNegative || g.value.is_constant()) return g;
  const auto assumed = [&](const Index& value) {
    return std::find(assumptions.begin(), assumptions.end(), non_negative(value)) != assumptions.end();
  };
  for (const Monomial& m : g.value.polynomial()->monomials) {
    if (m.factors.size() != 1 || m.factors[0]->kind != Atom::Kind::kBound) continue;
    const Index v = Index::atom(m.factors[0]);
    const int sign = unit_coefficient(g.value, v);
    if (sign == 0 || !assumed(v)) continue;
    for (const Guard& limit : assumptions) {
      if (limit.kind != Guard::Kind::kNonNegative || unit_coefficient(limit.value, v) != -1) continue;
      const Index size = limit.value + v + 1;
      // -v + d - 1 is between 0 and d as well.
      const Index rest = sign > 0 ? g.value - v : g.value + v - (size - 1);
      if (const auto blocks = exact_multiple(rest, size)) return non_negative(*blocks);
    }
  }
  return g;
}

Index without_divisions(const Index& index, const Guards& assumptions, Solver& solver) {
  if (index.is_constant()) return index;
  bool divides = false;
  for_each_atom(index, [&](const Atom& a) {
    if (a.kind == Atom::Kind::kLoad || a.kind == Atom::Kind::kPosition)
      throw Error(ErrorCode::kUnsupported, "a position depends on the contents of a tensor");
    divides |= a.kind != Atom::Kind::kSymbol && a.kind != Atom::Kind::kBound;
  });
  if (!divides) return index;
  return substitute(index, [&](const Atom& a) -> std::optional<Index> {
    if (a.kind == Atom::Kind::kMin || a.kind == Atom::Kind::kMax) {
      const Index left = without_divisions(a.arguments[0], assumptions, solver);
      const Index right = without_divisions(a.arguments[1], assumptions, solver);
      const bool is_min = a.kind == Atom::Kind::kMin;
      if (solver.proves_quickly(assumptions, at_least(right, left))) return is_min ? left : right;
      if (solver.proves_quickly(assumptions, at_least(left, right))) return is_min ? right : left;
      return is_min ? min(left, right) : max(left, right);
    }
    if (a.kind != Atom::Kind::kFloorDiv && a.kind != Atom::Kind::kMod) return std::nullopt;
    const Index dividend = without_divisions(a.arguments[0], assumptions, solver);
    const Index divisor = without_divisions(a.arguments[1], assumptions, solver);
    if (divisor.is_constant() && divisor.value() < 1) return std::nullopt;
    // a mod d = a - d * (a div d): only one kind of atom remains, so that more cancels.
    const Index quotient = quotient_of(dividend, divisor, assumptions, solver);
    return a.kind == Atom::Kind::kFloorDiv ? quotient : dividend - divisor * quotient;
  });
}

}  // namespace rewright::proof
