#include "runtime/planning/affine.h"

#include <algorithm>
#include <utility>

namespace rewright::planning {

void Affine::add(const Affine& other, std::int64_t times) {
  constant += other.constant * times;
  if (coefficients.size() < other.coefficients.size()) coefficients.resize(other.coefficients.size());
  for (std::size_t v = 0; v < other.coefficients.size(); ++v) coefficients[v] += other.coefficients[v] * times;
}

int Affine::variable() const {
  int found = -1;
  for (std::size_t v = 0; v < coefficients.size(); ++v) {
    if (coefficients[v] == 0) continue;
    if (found >= 0) return -2;
    found = static_cast<int>(v);
  }
  return found;
}

int Variables::add(std::uint64_t atom_id, Range range) {
  const int number = static_cast<int>(ranges_.size());
  by_atom_[atom_id] = number;
  ranges_.push_back(range);
  return number;
}

std::optional<int> Variables::find(std::uint64_t atom_id) const {
  const auto found = by_atom_.find(atom_id);
  return found == by_atom_.end() ? std::nullopt : std::optional(found->second);
}

std::int64_t Variables::lowest(const Affine& a) const {
  std::int64_t value = a.constant;
  for (std::size_t v = 0; v < a.coefficients.size(); ++v)
    value += a.coefficients[v] * (a.coefficients[v] > 0 ? ranges_[v].low : ranges_[v].high - 1);
  return value;
}

std::int64_t Variables::highest(const Affine& a) const {
  std::int64_t value = a.constant;
  for (std::size_t v = 0; v < a.coefficients.size(); ++v)
    value += a.coefficients[v] * (a.coefficients[v] > 0 ? ranges_[v].high - 1 : ranges_[v].low);
  return value;
}

std::optional<Affine> Variables::affine_atom(const Atom& atom) const {
  Affine result;
  switch (atom.kind) {
    case Atom::Kind::kBound: {
      const auto variable = find(atom.id);
      if (!variable) return std::nullopt;
      result.coefficients.resize(*variable + 1);
      result.coefficients[*variable] = 1;
      return result;
    }
    case Atom::Kind::kFloorDiv:
    case Atom::Kind::kMod: {
      const auto dividend = affine(atom.arguments[0]);
      const auto divisor = affine(atom.arguments[1]);
      if (!dividend || !divisor || !divisor->is_constant() || divisor->constant <= 0) return std::nullopt;
      // a = b * q + r, where q collects the terms that b divides: if 0 <= r < b everywhere, these are quotient and remainder.
      const std::int64_t b = divisor->constant;
      Affine q, r;
      q.coefficients.resize(dividend->coefficients.size());
      r.coefficients.resize(dividend->coefficients.size());
      for (std::size_t v = 0; v < dividend->coefficients.size(); ++v) {
        const std::int64_t c = dividend->coefficients[v];
        (c % b == 0 ? q : r).coefficients[v] = c % b == 0 ? c / b : c;
      }
      r.constant = dividend->constant;
      const std::int64_t shift = floor_quotient(lowest(r), b);
      q.constant = shift;
      r.constant -= shift * b;
      if (lowest(r) < 0 || highest(r) >= b) return std::nullopt;
      return atom.kind == Atom::Kind::kFloorDiv ? q : r;
    }
    case Atom::Kind::kPosition: {
      auto index = affine(atom.arguments[0]);
      const auto size = affine(atom.arguments[1]);
      if (!index || !size || !size->is_constant()) return std::nullopt;
      if (lowest(*index) >= 0 && highest(*index) < size->constant) return index;
      if (lowest(*index) < -size->constant || highest(*index) >= 0) return std::nullopt;
      index->constant += size->constant;
      return index;
    }
    case Atom::Kind::kMin:
    case Atom::Kind::kMax: {
      const auto a = affine(atom.arguments[0]);
      const auto b = affine(atom.arguments[1]);
      if (!a || !b) return std::nullopt;
      Affine difference = *a;
      difference.add(*b, -1);
      const bool smaller = highest(difference) <= 0, larger = lowest(difference) >= 0;
      if (!smaller && !larger) return std::nullopt;
      return (atom.kind == Atom::Kind::kMin) == smaller ? a : b;
    }
    default:
      return std::nullopt;
  }
}

std::optional<Affine> Variables::affine(const Index& index) const {
  Affine result;
  result.constant = index.constant_term();
  if (index.is_constant()) return result;
  for (const Monomial& monomial : index.polynomial()->monomials) {
    // At most one factor may vary.
    std::int64_t scale = monomial.coefficient;
    std::optional<Affine> varies;
    for (const AtomPointer& factor : monomial.factors) {
      auto f = affine_atom(*factor);
      if (!f) return std::nullopt;
      if (f->is_constant())
        scale *= f->constant;
      else if (!varies)
        varies = std::move(f);
      else
        return std::nullopt;
    }
    if (!varies)
      result.constant += scale;
    else if (scale == 1 && result.coefficients.empty())
      varies->constant += result.constant, result = *std::move(varies);
    else
      result.add(*varies, scale);
  }
  return result;
}

std::optional<Range> Variables::bounds_of_atom(const Atom& atom) const {
  if (atom.kind == Atom::Kind::kBound) {
    const auto variable = find(atom.id);
    if (!variable) return std::nullopt;
    return ranges_[static_cast<std::size_t>(*variable)];
  }
  if (atom.arguments.size() != 2) return std::nullopt;
  if (atom.kind == Atom::Kind::kPosition) {
    const auto size = affine(atom.arguments[1]);
    return size && size->is_constant() ? std::optional(Range{0, size->constant}) : std::nullopt;
  }
  const auto a = bounds(atom.arguments[0]), b = bounds(atom.arguments[1]);
  if (!a || !b) return std::nullopt;
  const bool known_divisor = b->high - b->low == 1 && b->low > 0;
  switch (atom.kind) {
    case Atom::Kind::kFloorDiv:
      if (!known_divisor) return std::nullopt;
      return Range{floor_quotient(a->low, b->low), floor_quotient(a->high - 1, b->low) + 1};
    case Atom::Kind::kMod:
      if (!known_divisor) return std::nullopt;
      return Range{0, b->low};
    case Atom::Kind::kMin:
      return Range{std::min(a->low, b->low), std::min(a->high, b->high)};
    case Atom::Kind::kMax:
      return Range{std::max(a->low, b->low), std::max(a->high, b->high)};
    default:
      return std::nullopt;
  }
}

std::optional<Range> Variables::bounds(const Index& index) const {
  if (const auto a = affine(index)) return Range{lowest(*a), highest(*a) + 1};
  Range result{index.constant_term(), index.constant_term() + 1};
  for (const Monomial& monomial : index.polynomial()->monomials) {
    Range term{monomial.coefficient, monomial.coefficient + 1};
    for (const AtomPointer& factor : monomial.factors) {
      const auto f = bounds_of_atom(*factor);
      if (!f || f->low >= f->high) return std::nullopt;
      std::int64_t corners[4];
      int n = 0;
      for (const std::int64_t x : {term.low, term.high - 1})
        for (const std::int64_t y : {f->low, f->high - 1})
          if (__builtin_mul_overflow(x, y, &corners[n++])) return std::nullopt;
      term = {*std::min_element(corners, corners + 4), *std::max_element(corners, corners + 4) + 1};
    }
    if (__builtin_add_overflow(result.low, term.low, &result.low) ||
        __builtin_add_overflow(result.high, term.high - 1, &result.high))
      return std::nullopt;
  }
  return result;
}

std::optional<bool> Variables::decide(const Condition& condition) const {
  if (const auto decided = condition.decided()) return decided;
  const auto difference = affine(condition.left - condition.right);
  if (!difference) return std::nullopt;
  const std::int64_t low = lowest(*difference), high = highest(*difference);
  switch (condition.relation) {
    case Condition::Relation::kLess:
      if (high < 0) return true;
      if (low >= 0) return false;
      break;
    case Condition::Relation::kLessEqual:
      if (high <= 0) return true;
      if (low > 0) return false;
      break;
    case Condition::Relation::kEqual:
    case Condition::Relation::kNotEqual: {
      const bool is_equal = condition.relation == Condition::Relation::kEqual;
      if (low == 0 && high == 0) return is_equal;
      if (low > 0 || high < 0) return !is_equal;
      break;
    }
  }
  return std::nullopt;
}

}  // namespace rewright::planning
