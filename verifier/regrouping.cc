#include "verifier/regrouping.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "verifier/divisions.h"
#include "verifier/terms.h"

namespace rewright::proof {

namespace {

constexpr std::size_t kMostBound = 12;   // variables of a term that is regrouped
constexpr std::size_t kMostRounds = 64;  // each replaces one variable

class Regrouping {
 public:
  Regrouping(const Guards& assumptions, Solver& solver) : assumptions_(assumptions), solver_(solver) {}

  Sum run(const Term& given) {
    Term term = given;
    for (std::size_t round = 0; round < kMostRounds && term.bound.size() <= kMostBound && !ended(); ++round) {
      if (!multiples(term) && !quotients(term) && !blocks(term)) break;
      const Sum simple = simplified({term});
      if (simple.empty()) return {};
      term = simple[0];
    }
    return {std::move(term)};
  }

 private:
  bool ended() const { return solver_.options().ended && solver_.options().ended(); }

  bool is_positive(const Index& size) const { return solver_.proves_quickly(assumptions_, at_least(size, 1)); }

  static bool any_occurs(const Indices& variables, const Index& in) {
    return std::any_of(variables.begin(), variables.end(), [&](const Index& v) { return occurs(v, in); });
  }

  // Floor divisions among the positions and guards of a term, without those inside of functions.
  static std::vector<std::pair<Index, Index>> divisions(const Term& term) {
    std::vector<std::pair<Index, Index>> result;
    const auto collect = [&](const Index& index) {
      if (index.is_constant()) return;
      for_each_atom(index, [&](const Atom& a) {
        if (a.kind != Atom::Kind::kFloorDiv) return;
        const std::pair<Index, Index> division(a.arguments[0], a.arguments[1]);
        if (std::find(result.begin(), result.end(), division) == result.end()) result.push_back(division);
      });
    };
    for (const Factor& f : term.factors) {
      for (const Index& p : f.position) collect(p);
      collect(f.index);
    }
    for (const Guard& g : term.guards)
      if (g.kind != Guard::Kind::kAll && g.kind != Guard::Kind::kAny) collect(g.value);
    return result;
  }

  // A guard says that d divides a variable and others.
  bool multiples(Term& term) const {
    for (const Guard& g : term.guards) {
      if (g.kind != Guard::Kind::kZero || g.value.is_constant()) continue;
      for (const auto& [dividend, divisor] : divisions({1, {}, {g}, {}, {}})) {
        const Index rest = dividend - divisor * floor_div(dividend, divisor);
        if (any_occurs(term.bound, divisor) || !(zero(rest) == g) || !is_positive(divisor)) continue;
        for (const Index& v : Indices(term.bound)) {
          const int sign = unit_coefficient(dividend, v);
          if (sign == 0) continue;
          const Index multiple = Index::fresh("t");
          const Index value = Index(sign) * (divisor * multiple - (dividend - Index(sign) * v));
          term = replaced(term, {{v, value}});
          *std::find(term.bound.begin(), term.bound.end(), v) = multiple;
          tidy(term);
          return true;
        }
      }
    }
    return false;
  }

  // A variable is divided. Of several divisors the one that divides the others comes first.
  bool quotients(Term& term) const {
    const std::vector<std::pair<Index, Index>> all = divisions(term);
    for (const Index& v : Indices(term.bound)) {
      Indices divisors;
      for (const auto& [dividend, divisor] : all)
        if (dividend == v && !any_occurs(term.bound, divisor)) divisors.push_back(divisor);
      const auto divides_all = [&](const Index& d) {
        return std::all_of(divisors.begin(), divisors.end(), [&](const Index& e) { return exact_multiple(e, d).has_value(); });
      };
      const auto least = std::find_if(divisors.begin(), divisors.end(), divides_all);
      if (least == divisors.end() || !is_positive(*least)) continue;
      const Index divisor = *least, quotient = Index::fresh("q"), rest = Index::fresh("r");
      Replacements outer;
      for (const Index& d : divisors) {
        const Index times = *exact_multiple(d, divisor);
        if (!is_positive(times)) continue;
        outer.emplace_back(floor_div(v, d), floor_div(quotient, times));  // v div (k d) = (v div d) div k
      }
      term = replaced(replaced(term, outer), {{v, divisor * quotient + rest}});
      *std::find(term.bound.begin(), term.bound.end(), v) = quotient;
      term.bound.push_back(rest);
      const Guards range = within(rest, divisor);
      for (Guard& g : term.guards) g = without_offset(g, range);
      term.guards.insert(term.guards.end(), range.begin(), range.end());
      tidy(term);
      return true;
    }
    return false;
  }

  // The number of values of a variable, if it begins at 0.
  static std::optional<Index> size_of(const Term& term, const Index& v) {
    if (std::find(term.guards.begin(), term.guards.end(), non_negative(v)) == term.guards.end()) return std::nullopt;
    for (const Guard& g : term.guards)
      if (g.kind == Guard::Kind::kNonNegative && unit_coefficient(g.value, v) == -1)
        if (const Index size = g.value + v + 1; !any_occurs(term.bound, size)) return size;
    return std::nullopt;
  }

  // Two variables are one: all that is summed depends on d q + r alone.
  bool blocks(Term& term) const {
    for (const Index& r : Indices(term.bound)) {
      const std::optional<Index> size = size_of(term, r);
      if (!size || size->constant() == 1 || !is_positive(*size)) continue;
      for (const Index& q : Indices(term.bound)) {
        if (q == r) continue;
        const Index whole = Index::fresh("v");
        Term merged = term;
        const Guards range = within(r, *size);
        std::erase_if(merged.guards, [&](const Guard& g) { return g == range[0] || g == range[1]; });
        const Guards guards = replaced(merged.guards, {{r, whole - *size * q}});
        merged.guards.clear();
        const Term summed = replaced(merged, {{r, whole - *size * q}});
        const bool depends = to_string({replaced(summed, {{q, Index::symbol("!")}})}) != to_string({summed});
        if (depends || to_string({summed}) == to_string({merged})) continue;
        merged = summed;
        std::erase(merged.bound, r);
        *std::find(merged.bound.begin(), merged.bound.end(), q) = whole;
        const bool all = std::all_of(guards.begin(), guards.end(), [&](const Guard& g) {
          const std::optional<Guard> in = in_blocks(g, q, whole, *size);
          if (in) merged.guards.push_back(*in);
          return in.has_value();
        });
        if (!all) continue;
        term = std::move(merged);
        tidy(term);
        return true;
      }
    }
    return false;
  }

  // The guard for q = whole div size, without a division: with one, quotients() would separate the two again, and so on without
  // an end. Nullopt if there is none.
  static std::optional<Guard> in_blocks(const Guard& g, const Index& q, const Index& whole, const Index& size) {
    if (!occurs(q, g)) return g;
    const int sign = g.kind == Guard::Kind::kNonNegative ? unit_coefficient(g.value, q) : 0;
    const Index rest = g.value - Index(sign) * q;
    if (sign == 0 || occurs(whole, rest)) return std::nullopt;
    return sign > 0 ? non_negative(whole + rest * size) : non_negative(rest * size + size - 1 - whole);
  }

  // Divisions that are known where the guards hold.
  void tidy(Term& term) const {
    Guards known = assumptions_;
    known.insert(known.end(), term.guards.begin(), term.guards.end());
    for (Factor& f : term.factors)
      for (Index& p : f.position) p = without_divisions(p, known, solver_);
  }

  const Guards& assumptions_;
  Solver& solver_;
};

}  // namespace

Sum regrouped(const Sum& sum, const Guards& assumptions, Solver& solver) {
  Sum result;
  for (const Term& term : sum)
    for (Term& other : Regrouping(assumptions, solver).run(term)) result.push_back(std::move(other));
  return result;
}

}  // namespace rewright::proof
