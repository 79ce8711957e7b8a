#include "runtime/cpu/tile/cuts.h"

#include <algorithm>
#include <set>

namespace rewright::cpu {

namespace {

using Kind = ElementNode::Kind;

std::optional<Cut> cut_for(const Condition& condition, const Variables& variables, std::size_t axes) {
  const auto difference = variables.affine(condition.left - condition.right);
  if (!difference) return std::nullopt;
  const int v = difference->variable();
  if (v < 0 || static_cast<std::size_t>(v) >= axes) return std::nullopt;
  const std::int64_t a = difference->coefficients[v], c = difference->constant;
  // The first v at which a*v + c > t (a > 0) or <= t (a < 0), for the relation's threshold t.
  const auto crossing = [&](std::int64_t t) {
    const std::int64_t n = t - c;
    const std::int64_t q = n / a, r = n % a;
    const std::int64_t floor = q - (r != 0 && (r < 0) != (a < 0));
    return a > 0 ? floor + 1 : (r == 0 ? q : floor + 1);
  };
  const Range range = variables.range(v);
  const auto usable = [&](std::int64_t at) -> std::optional<Cut> {
    if (at > range.low && at < range.high) return Cut{static_cast<std::size_t>(v), at};
    return std::nullopt;
  };
  switch (condition.relation) {
    case Condition::Relation::kLess:
      return usable(crossing(-1));
    case Condition::Relation::kLessEqual:
      return usable(crossing(0));
    default:
      break;
  }
  if ((-c) % a != 0) return std::nullopt;
  const std::int64_t zero = -c / a;
  const auto before = usable(zero);
  return before ? before : usable(zero + 1);
}

std::optional<Cut> find_cut(const Element& e, const Variables& variables, std::size_t axes,
                            const std::vector<TileOperand>& operands, std::set<const ElementNode*>& seen) {
  if (!seen.insert(e.get()).second) return std::nullopt;
  const auto first_cut = [&](const std::vector<Condition>& conditions, bool& all) -> std::optional<Cut> {
    all = true;
    for (const Condition& c : conditions) {
      const auto decided = variables.decide(c);
      if (decided == true) continue;
      all = false;
      if (decided == false) return std::nullopt;
      if (const auto cut = cut_for(c, variables, axes)) return cut;
    }
    return std::nullopt;
  };
  bool all = true;
  if (e->kind == Kind::kChoose) {
    if (const auto cut = first_cut(e->conditions, all)) return cut;
    const bool never = std::any_of(e->conditions.begin(), e->conditions.end(),
                                   [&](const Condition& c) { return variables.decide(c) == false; });
    for (std::size_t branch = 0; branch < 2; ++branch) {
      if ((branch == 0 && never) || (branch == 1 && all)) continue;
      if (const auto cut = find_cut(e->arguments[branch], variables, axes, operands, seen)) return cut;
    }
    return std::nullopt;
  }
  if (e->kind == Kind::kRead && e->zero_outside)
    if (const auto cut = first_cut(inside_conditions(*e, operands[e->operand].sizes), all)) return cut;
  for (const Element& argument : e->arguments)
    if (const auto cut = find_cut(argument, variables, axes, operands, seen)) return cut;
  return std::nullopt;
}

}  // namespace

std::vector<Condition> inside_conditions(const ElementNode& read, const Sizes& sizes) {
  std::vector<Condition> conditions;
  for (std::size_t a = 0; a < read.position.size(); ++a) {
    conditions.push_back(less_equal(0, read.position[a]));
    conditions.push_back(less(read.position[a], sizes[a]));
  }
  return conditions;
}

std::optional<Cut> find_cut(const Element& element, const Variables& variables, std::size_t axes,
                            const std::vector<TileOperand>& operands) {
  std::set<const ElementNode*> seen;
  return find_cut(element, variables, axes, operands, seen);
}

}  // namespace rewright::cpu
