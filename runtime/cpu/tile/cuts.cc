#include "runtime/cpu/tile/cuts.h"

#include <algorithm>
#include <set>

#include "expressions/free_variables.h"

namespace rewright::cpu {

namespace {

using Kind = ElementNode::Kind;

// Within a reduction: a cut beyond which the condition holds in all of its steps, if that is more than half of the axis, as for
// the windows that lie within an image.
std::optional<Cut> cut_around(const Condition& condition, Affine difference, const Variables& variables, std::size_t axes) {
  if (condition.relation == Condition::Relation::kLessEqual)
    --difference.constant;
  else if (condition.relation != Condition::Relation::kLess)
    return std::nullopt;
  std::int64_t most = difference.constant, v = -1;  // most: of all terms but that of axis v; the condition: below 0
  for (std::size_t k = 0; k < difference.coefficients.size(); ++k) {
    const std::int64_t c = difference.coefficients[k];
    if (c == 0) continue;
    const Range range = variables.range(k);
    if (range.low >= range.high || (k < axes && v >= 0)) return std::nullopt;
    if (k < axes)
      v = static_cast<std::int64_t>(k);
    else
      most += c * (c > 0 ? range.high - 1 : range.low);
  }
  if (v < 0) return std::nullopt;
  const std::int64_t a = difference.coefficients[static_cast<std::size_t>(v)];
  const Range range = variables.range(static_cast<std::size_t>(v));
  // a * i + most < 0: up to before -most / a, rounded up, or from behind -most / a, rounded down, on.
  const std::int64_t at = a > 0 ? -planning::floor_quotient(most, a) : planning::floor_quotient(most, -a) + 1;
  const std::int64_t held = a > 0 ? at - range.low : range.high - at;
  if (at <= range.low || at >= range.high || 2 * held <= range.high - range.low) return std::nullopt;
  return Cut{static_cast<std::size_t>(v), at};
}

std::optional<Cut> cut_for(const Condition& condition, const Variables& variables, std::size_t axes, bool around) {
  const auto difference = variables.affine(condition.left - condition.right);
  if (!difference) return std::nullopt;
  const int v = difference->variable();
  if (v == -2) return around ? cut_around(condition, *difference, variables, axes) : std::nullopt;
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
                            const std::vector<TileOperand>& operands, bool around, std::set<const ElementNode*>& seen) {
  if (!seen.insert(e.get()).second) return std::nullopt;
  const auto first_cut = [&](const std::vector<Condition>& conditions, bool& all) -> std::optional<Cut> {
    all = true;
    for (const Condition& c : conditions) {
      const auto decided = variables.decide(c);
      if (decided == true) continue;
      all = false;
      if (decided == false) return std::nullopt;
      if (const auto cut = cut_for(c, variables, axes, around)) return cut;
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
      if (const auto cut = find_cut(e->arguments[branch], variables, axes, operands, around, seen)) return cut;
    }
    return std::nullopt;
  }
  if (e->kind == Kind::kReduce) {
    const auto bound = variables.affine(e->bound);
    const Atom* const variable = e->index.as_atom();
    Variables within = variables;
    if (bound && bound->is_constant() && variable != nullptr) within.add(variable->id, {0, bound->constant});
    return find_cut(e->arguments[0], within, axes, operands, around, seen);
  }
  if (e->kind == Kind::kRead && e->zero_outside)
    if (const auto cut = first_cut(inside_conditions(*e, operands[e->operand].sizes), all)) return cut;
  for (const Element& argument : e->arguments)
    if (const auto cut = find_cut(argument, variables, axes, operands, around, seen)) return cut;
  return std::nullopt;
}

// An output axis, and the size of its inner part.
struct Split {
  std::size_t axis;
  std::int64_t inner;
};

constexpr std::int64_t kShortRow = 8;  // elements: to go through shorter rows takes longer than to gather

std::optional<Split> split_for(const Atom& atom, const Variables& variables, std::size_t axes) {
  if (atom.kind != Atom::Kind::kFloorDiv && atom.kind != Atom::Kind::kMod) return std::nullopt;
  const Index &x = atom.arguments[0], &n = atom.arguments[1];
  const auto dividend = variables.affine(x);
  if (!dividend || !n.is_constant() || n.value() <= 1 || variables.affine(mod(x, n))) return std::nullopt;
  std::size_t innermost = 0;
  for (std::size_t a = 0; a < axes; ++a)
    if (variables.range(a).high > 1) innermost = a;
  for (std::size_t a = 0; a < axes; ++a) {
    const std::int64_t c = dividend->coefficient(a), size = variables.range(a).high;
    if (c <= 0 || c >= n.value() || n.value() % c != 0) continue;
    const std::int64_t inner = n.value() / c;
    if (inner < size && size % inner == 0 && (a != innermost || inner >= kShortRow)) return Split{a, inner};
  }
  return std::nullopt;
}

std::optional<Split> find_split(const Element& e, const Variables& variables, std::size_t axes,
                                std::set<const ElementNode*>& seen) {
  if (!seen.insert(e.get()).second) return std::nullopt;
  std::optional<Split> found;
  for_each_index(*e, [&](const Index& index) {
    for_each_atom(index, [&](const Atom& atom) {
      if (!found) found = split_for(atom, variables, axes);
    });
  });
  for (const Element& argument : e->arguments)
    if (!found) found = find_split(argument, variables, axes, seen);
  return found;
}

constexpr std::size_t kMostAxes = 10;  // of an output whose axes are split

}  // namespace

Variables Computed::variables() const {
  Variables result;
  for (std::size_t a = 0; a < position.size(); ++a) {
    const Atom* atom = position[a].as_atom();
    result.add(atom != nullptr ? atom->id : ~std::uint64_t{a}, {0, sizes[a]});
  }
  return result;
}

Computed with_split_axes(Computed c, const TileOperand& output, const std::vector<TileOperand>& operands) {
  const bool blocked = std::any_of(operands.begin(), operands.end(), [](const TileOperand& o) { return o.layout.blocked(); });
  if (!output.layout.plain() || blocked || element_count(c.sizes) == 0) return c;
  while (c.sizes.size() < kMostAxes) {
    std::set<const ElementNode*> seen;
    const auto split = find_split(c.element, c.variables(), c.sizes.size(), seen);
    if (!split) break;
    const Atom* const axis = c.position[split->axis].as_atom();
    const Index outer = Index::fresh("o"), inner = Index::fresh("r");
    c.element = rewrite(c.element, {}, [&](const Atom& atom) -> std::optional<Index> {
      if (atom.kind != Atom::Kind::kBound || atom.id != axis->id) return std::nullopt;
      return outer * Index(split->inner) + inner;
    });
    const auto at = static_cast<std::ptrdiff_t>(split->axis);
    c.sizes[split->axis] /= split->inner;
    c.sizes.insert(c.sizes.begin() + at + 1, split->inner);
    c.position[split->axis] = outer;
    c.position.insert(c.position.begin() + at + 1, inner);
  }
  return c;
}

bool splits_axes(const Computed& c) {
  if (element_count(c.sizes) == 0 || c.sizes.size() >= kMostAxes) return false;
  std::set<const ElementNode*> seen;
  return find_split(c.element, c.variables(), c.sizes.size(), seen).has_value();
}

std::vector<Condition> inside_conditions(const ElementNode& read, const Sizes& sizes) {
  std::vector<Condition> conditions;
  for (std::size_t a = 0; a < read.position.size(); ++a) {
    conditions.push_back(less_equal(0, read.position[a]));
    conditions.push_back(less(read.position[a], sizes[a]));
  }
  return conditions;
}

std::optional<Cut> find_cut(const Element& element, const Variables& variables, std::size_t axes,
                            const std::vector<TileOperand>& operands, bool around) {
  std::set<const ElementNode*> seen;
  return find_cut(element, variables, axes, operands, around, seen);
}

}  // namespace rewright::cpu
