#include "runtime/cuda/source/index_range.h"

#include <algorithm>

namespace rewright::cuda {

namespace {

constexpr std::int64_t kFarthest = std::int64_t{1} << 62;

std::int64_t saturated(__int128 v) {
  return static_cast<std::int64_t>(std::clamp(v, -static_cast<__int128>(kFarthest), static_cast<__int128>(kFarthest)));
}

IndexRange multiply(IndexRange a, IndexRange b) {
  IndexRange r{kFarthest, -kFarthest};
  for (const std::int64_t x : {a.low, a.high})
    for (const std::int64_t y : {b.low, b.high}) {
      const std::int64_t p = saturated(static_cast<__int128>(x) * y);
      r.low = std::min(r.low, p);
      r.high = std::max(r.high, p);
    }
  return r;
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

}  // namespace

IndexRange IndexRanges::of(const Atom& atom) const {
  switch (atom.kind) {
    case Atom::Kind::kBound: {
      const auto found = ranges_.find(atom.id);
      return found == ranges_.end() ? IndexRange{-kFarthest, kFarthest} : found->second;
    }
    case Atom::Kind::kFloorDiv: {
      const IndexRange a = of(atom.arguments[0]), b = of(atom.arguments[1]);
      if (b.low < 1) return {-kFarthest, kFarthest};
      return {floor_divide(a.low, a.low < 0 ? b.low : b.high), floor_divide(a.high, a.high < 0 ? b.high : b.low)};
    }
    case Atom::Kind::kMod: {
      const IndexRange a = of(atom.arguments[0]), b = of(atom.arguments[1]);
      const std::int64_t most = std::max<std::int64_t>(b.high - 1, 0);
      return {0, a.low >= 0 ? std::min(a.high, most) : most};
    }
    case Atom::Kind::kPosition: {  // bounded only if the index is certainly inside; others are checked where they are read
      const IndexRange index = of(atom.arguments[0]), size = of(atom.arguments[1]);
      if (index.low >= 0 && index.high < size.low) return index;
      if (size.low != size.high || index.low < -size.low || index.high >= 0) return {-kFarthest, kFarthest};
      return {index.low + size.low, index.high + size.low};
    }
    case Atom::Kind::kMin: {
      const IndexRange a = of(atom.arguments[0]), b = of(atom.arguments[1]);
      return {std::min(a.low, b.low), std::min(a.high, b.high)};
    }
    case Atom::Kind::kMax: {
      const IndexRange a = of(atom.arguments[0]), b = of(atom.arguments[1]);
      return {std::max(a.low, b.low), std::max(a.high, b.high)};
    }
    default:
      return {-kFarthest, kFarthest};
  }
}

IndexRange IndexRanges::of(const Monomial& monomial) const {
  IndexRange r{monomial.coefficient, monomial.coefficient};
  for (const AtomPointer& factor : monomial.factors) r = multiply(r, of(*factor));
  return r;
}

IndexRange IndexRanges::of(const Index& index) const {
  __int128 low = index.constant_term(), high = low;
  if (!index.is_constant())
    for (const Monomial& m : index.polynomial()->monomials) {
      const IndexRange r = of(m);
      low += r.low;
      high += r.high;
    }
  return {saturated(low), saturated(high)};
}

std::optional<bool> IndexRanges::decide(const Condition& condition) const {
  const IndexRange d = of(condition.right - condition.left);
  const auto known = [](bool yes, bool no) { return yes ? std::optional(true) : no ? std::optional(false) : std::nullopt; };
  switch (condition.relation) {
    case Condition::Relation::kLess:
      return known(d.low > 0, d.high <= 0);
    case Condition::Relation::kLessEqual:
      return known(d.low >= 0, d.high < 0);
    case Condition::Relation::kEqual:
      return known(d.low == 0 && d.high == 0, d.low > 0 || d.high < 0);
    case Condition::Relation::kNotEqual:
      return known(d.low > 0 || d.high < 0, d.low == 0 && d.high == 0);
  }
  return std::nullopt;
}

}  // namespace rewright::cuda
