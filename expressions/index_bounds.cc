#include "expressions/index_bounds.h"

#include <algorithm>

#include "base/error.h"

namespace rewright {

namespace {

constexpr Bounds kUnbounded{};

// Sums and products of bounds. Beyond 64 bits they are infinite.
std::int64_t saturated(__int128 value) {
  if (value <= Bounds::kNoLow) return Bounds::kNoLow;
  if (value >= Bounds::kNoHigh) return Bounds::kNoHigh;
  return static_cast<std::int64_t>(value);
}

bool has_low(const Bounds& b) { return b.low != Bounds::kNoLow; }
bool has_high(const Bounds& b) { return b.high != Bounds::kNoHigh; }

Bounds sum(const Bounds& a, const Bounds& b) {
  Bounds result;
  if (has_low(a) && has_low(b)) result.low = saturated(static_cast<__int128>(a.low) + b.low);
  if (has_high(a) && has_high(b)) result.high = saturated(static_cast<__int128>(a.high) + b.high);
  return result;
}

// The product of two ends of intervals. Infinity times 0 is 0, since the other factor is 0 there.
std::int64_t times(std::int64_t a, std::int64_t b) {
  if (a == 0 || b == 0) return 0;
  const auto infinite = [](std::int64_t v) { return v == Bounds::kNoLow || v == Bounds::kNoHigh; };
  if (infinite(a) || infinite(b)) return (a < 0) == (b < 0) ? Bounds::kNoHigh : Bounds::kNoLow;
  return saturated(static_cast<__int128>(a) * b);
}

Bounds product(const Bounds& a, const Bounds& b) {
  const auto [low, high] =
      std::minmax({times(a.low, b.low), times(a.low, b.high), times(a.high, b.low), times(a.high, b.high)});
  return {low, high};
}

// The intersection of both bounds.
Bounds meet(const Bounds& a, const Bounds& b) { return {std::max(a.low, b.low), std::min(a.high, b.high)}; }
// The union of both bounds.
Bounds join(const Bounds& a, const Bounds& b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }

std::int64_t floor_quotient(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }  // b > 0

class Analysis {
 public:
  Bounds of(const Index& index) {
    if (const auto number = index.constant()) return {*number, *number};
    Bounds result = plain(index);
    // Terms may depend on one another, as in n - min(n, 512). Bounds of a replacement for one atom can then be tighter.
    for (const Monomial& m : index.polynomial()->monomials) {
      if (steps_ >= kMostSteps) break;
      if (m.factors.size() != 1) continue;
      const Atom& atom = *m.factors[0];
      if (atom.kind == Atom::Kind::kMin || atom.kind == Atom::Kind::kMax)
        result = meet(result, of_choice(index, m, atom));
      else if (atom.kind == Atom::Kind::kFloorDiv && atom.arguments[1].constant().value_or(0) > 1)
        result = meet(result, of_division(index, m, atom));
    }
    return result;
  }

 private:
  static constexpr int kMostSteps = 64;

  // Adds up the bounds of the terms.
  Bounds plain(const Index& index) {
    Bounds result{index.constant_term(), index.constant_term()};
    for (const Monomial& m : index.polynomial()->monomials) {
      Bounds term{m.coefficient, m.coefficient};
      for (std::size_t i = 0; i < m.factors.size();) {
        std::size_t power = 0;
        const std::size_t first = i;
        Bounds factor = of_atom(*m.factors[first]), all{1, 1};
        for (; i < m.factors.size() && compare(*m.factors[i], *m.factors[first]) == 0; ++i, ++power) all = product(all, factor);
        if (power % 2 == 0) all.low = std::max<std::int64_t>(all.low, 0);
        term = product(term, all);
      }
      result = sum(result, term);
    }
    return result;
  }

  Bounds of_atom(const Atom& atom) {
    const auto argument = [&](std::size_t i) { return of(atom.arguments[i]); };
    switch (atom.kind) {
      case Atom::Kind::kSymbol:
        return {0, Bounds::kNoHigh};
      case Atom::Kind::kBound:
      case Atom::Kind::kLoad:
        return kUnbounded;
      case Atom::Kind::kMin: {
        const Bounds a = argument(0), b = argument(1);
        return {std::min(a.low, b.low), std::min(a.high, b.high)};
      }
      case Atom::Kind::kMax: {
        const Bounds a = argument(0), b = argument(1);
        return {std::max(a.low, b.low), std::max(a.high, b.high)};
      }
      case Atom::Kind::kFloorDiv:
        return of_quotient(argument(0), argument(1));
      case Atom::Kind::kPosition: {
        const Bounds size = argument(1);
        return {0, has_high(size) ? size.high - 1 : Bounds::kNoHigh};
      }
      case Atom::Kind::kMod: {
        const Bounds a = argument(0), b = argument(1);  // the divisor is at least 1
        Bounds result{0, has_high(b) ? b.high - 1 : Bounds::kNoHigh};
        if (a.low >= 0) result.high = std::min(result.high, a.high);
        return result;
      }
    }
    return kUnbounded;
  }

  // The divisor is at least 1, so a quotient is between its dividend and 0, or is -1.
  static Bounds of_quotient(const Bounds& a, const Bounds& b) {
    const std::int64_t least = std::max<std::int64_t>(b.low, 1), most = std::max<std::int64_t>(b.high, 1);
    Bounds result;
    if (has_low(a)) result.low = a.low < 0 ? floor_quotient(a.low, least) : has_high(b) ? a.low / most : 0;
    if (has_high(a)) result.high = a.high >= 0 ? a.high / least : has_high(b) ? floor_quotient(a.high, most) : -1;
    return result;
  }

  static Index replaced(const Index& index, const Monomial& m, const Index& replacement) {
    return index - Index(m.coefficient) * Index::atom(m.factors[0]) + Index(m.coefficient) * replacement;
  }

  // A minimum equals one of its sides and is at most the other.
  Bounds of_choice(const Index& index, const Monomial& m, const Atom& atom) {
    ++steps_;
    const Bounds a = of(replaced(index, m, atom.arguments[0])), b = of(replaced(index, m, atom.arguments[1]));
    Bounds result = join(a, b);
    const bool grows = (m.coefficient > 0) == (atom.kind == Atom::Kind::kMax);  // if increasing: at least either side
    if (grows)
      result.low = std::max(a.low, b.low);
    else
      result.high = std::min(a.high, b.high);
    return result;
  }

  // d * (a div d) = a - a mod d.
  Bounds of_division(const Index& index, const Monomial& m, const Atom& atom) {
    ++steps_;
    const std::int64_t divisor = atom.arguments[1].value();
    const Index without = replaced(index, m, 0);
    const Bounds remainder = product({m.coefficient, m.coefficient}, {1 - divisor, 0});
    const Bounds scaled = sum(of(without * divisor + Index(m.coefficient) * atom.arguments[0]), remainder);
    Bounds result;
    if (has_low(scaled)) result.low = -floor_quotient(-scaled.low, divisor);
    if (has_high(scaled)) result.high = floor_quotient(scaled.high, divisor);
    return result;
  }

  int steps_ = 0;
};

}  // namespace

Bounds bounds_over_sizes(const Index& index) {
  try {
    return Analysis().of(index);
  } catch (const Error&) {  // beyond 64 bits
    return kUnbounded;
  }
}

std::optional<bool> decided_over_sizes(const Condition& condition) {
  if (const auto decided = condition.decided()) return decided;
  const Bounds d = bounds_over_sizes(condition.right - condition.left);
  const bool differ = d.low > 0 || d.high < 0;
  switch (condition.relation) {
    case Condition::Relation::kEqual:
      return differ ? std::optional(false) : d == Bounds{0, 0} ? std::optional(true) : std::nullopt;
    case Condition::Relation::kNotEqual:
      return differ ? std::optional(true) : d == Bounds{0, 0} ? std::optional(false) : std::nullopt;
    case Condition::Relation::kLess:
      return d.low > 0 ? std::optional(true) : d.high <= 0 ? std::optional(false) : std::nullopt;
    case Condition::Relation::kLessEqual:
      return d.low >= 0 ? std::optional(true) : d.high < 0 ? std::optional(false) : std::nullopt;
  }
  return std::nullopt;
}

Index min_over_sizes(const Index& a, const Index& b) {
  const Bounds d = bounds_over_sizes(a - b);
  return d.high <= 0 ? a : d.low >= 0 ? b : min(a, b);
}

Index max_over_sizes(const Index& a, const Index& b) {
  const Bounds d = bounds_over_sizes(a - b);
  return d.low >= 0 ? a : d.high <= 0 ? b : max(a, b);
}

}  // namespace rewright
