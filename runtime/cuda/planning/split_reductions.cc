#include "runtime/cuda/planning/split_reductions.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "expressions/free_variables.h"
#include "runtime/cuda/source/reduction_nest.h"

namespace rewright::cuda {

namespace {

using Kind = ElementNode::Kind;

constexpr std::int64_t kFewRows = 64;          // more of them occupy a GPU
constexpr std::int64_t kLongInAll = 1 << 17;   // steps of all rows for which another kernel is worth its start
constexpr std::int64_t kLeastOfAPart = 256;    // steps
constexpr std::int64_t kEnoughParts = 1 << 9;  // of all rows
constexpr std::int64_t kMostParts = 1 << 13;   // of all rows

bool has_reduction(const Element& e) {
  return e->kind == Kind::kReduce || std::any_of(e->arguments.begin(), e->arguments.end(), has_reduction);
}

// The outermost reductions.
void find_reductions(const Element& e, std::set<const ElementNode*>& found) {
  if (e->kind == Kind::kReduce) {
    found.insert(e.get());
    return;
  }
  for (const Element& a : e->arguments) find_reductions(a, found);
}

Element replaced(const Element& e, const ElementNode* target, const Element& by, std::map<const ElementNode*, Element>& done) {
  if (e.get() == target) return by;
  const auto [found, added] = done.emplace(e.get(), e);
  if (!added) return found->second;
  ElementNode copy = *e;
  bool changed = false;
  for (Element& a : copy.arguments) {
    const Element other = replaced(a, target, by, done);
    changed = changed || other != a;
    a = other;
  }
  return done[e.get()] = changed ? std::make_shared<const ElementNode>(std::move(copy)) : e;
}

// A reduction over `variables` divided into parts: their number, and each variable by the number of a part (leading ones) and
// by the steps within it.
struct Parts {
  std::int64_t count = 1;
  std::size_t leading = 0;      // variables that are fixed in a part
  std::int64_t chunk = 0;       // steps of the next one in a part; 0: it is not divided
  std::int64_t of_divided = 1;  // parts of the next one
};

Parts divide(const ReductionNest& nest, std::int64_t rows) {
  Parts parts;
  const auto size = [&](std::size_t v) { return nest.bounds[v].value(); };
  const auto enough = [&] { return parts.count * rows >= kEnoughParts; };
  const auto allowed = [&](std::int64_t count) { return count * rows <= kMostParts && nest.steps / count >= kLeastOfAPart; };
  while (!enough() && parts.leading + 1 < nest.variables.size() && allowed(parts.count * size(parts.leading)))
    parts.count *= size(parts.leading++);
  if (enough()) return parts;
  const std::int64_t next = size(parts.leading);
  std::int64_t wanted = std::min(next, (kEnoughParts + parts.count * rows - 1) / (parts.count * rows));
  while (wanted > 1 && !allowed(parts.count * wanted)) --wanted;
  if (wanted < 2) return parts;
  parts.chunk = (next + wanted - 1) / wanted;
  parts.of_divided = (next + parts.chunk - 1) / parts.chunk;
  parts.count *= parts.of_divided;
  return parts;
}

class Split {
 public:
  Split(GraphFacts& facts, Group& group) : facts_(facts), group_(group) {}

  void make() {
    if (!find()) return;
    const Parts parts = divide(nest_, rows_);
    if (parts.count < 2) return;
    Group first = of_parts(parts), whole = group_;
    Group second = over_parts(first, parts);
    group_.element = nullptr;
    group_.alternatives = {{std::move(first), std::move(second)}, {std::move(whole)}};
  }

 private:
  // Finds the group's long reduction, and the axes that its rows have.
  bool find() {
    std::set<const ElementNode*> found;
    find_reductions(group_.element, found);
    if (found.size() != 1) return false;
    reduction_ = *found.begin();
    nest_ = reduction_nest(*reduction_);
    if (reduction_->scalar == Scalar::kBoolean || nest_.steps < 0 || !nest_.conditions.empty() || has_reduction(nest_.body))
      return false;
    FreeVariables free;
    std::set<std::uint64_t> atoms;
    const auto& of = free.of(*reduction_);
    atoms.insert(of.begin(), of.end());
    const Sizes& sizes = facts_.info(group_.result).sizes;
    for (std::size_t a = 0; a < group_.position.size(); ++a) {
      if (group_.position[a].as_atom() == nullptr) return false;
      if (!atoms.contains(group_.position[a].as_atom()->id)) continue;
      axes_.push_back(a);
      row_sizes_.push_back(sizes[a]);
    }
    rows_ = element_count(row_sizes_);
    return rows_ > 0 && rows_ <= kFewRows && nest_.steps * rows_ >= kLongInAll;
  }

  DataType type_of_parts() const {
    if (reduction_->scalar == Scalar::kInteger) return DataType::kInt64;
    const auto is_double = [&](ValueId v) { return v != kNoValue && facts_.info(v).type == DataType::kDouble; };
    const bool wide = is_double(group_.result) || std::any_of(group_.operands.begin(), group_.operands.end(), is_double);
    return wide ? DataType::kDouble : DataType::kFloat;
  }

  // The reductions of the parts, the last axis of the result.
  Group of_parts(const Parts& parts) {
    Group first = group_;
    first.position.clear();
    for (const std::size_t a : axes_) first.position.push_back(group_.position[a]);
    const Index part = Index::fresh("part");
    first.position.push_back(part);
    Sizes sizes = row_sizes_;
    sizes.push_back(parts.count);
    first.result = facts_.add_value({type_of_parts(), sizes});
    std::map<std::uint64_t, Index> fixed;
    std::int64_t stride = parts.count;
    const auto digit = [&](std::int64_t size) {
      stride /= size;
      return mod(floor_div(part, Index(stride)), Index(size));
    };
    for (std::size_t v = 0; v < parts.leading; ++v) fixed.emplace(id_of(v), digit(nest_.bounds[v].value()));
    const Index before = parts.chunk == 0 ? Index(0) : digit(parts.of_divided) * Index(parts.chunk);
    Indices bounds(nest_.bounds.begin() + static_cast<std::ptrdiff_t>(parts.leading), nest_.bounds.end());
    const Index all = bounds[0];
    if (parts.chunk != 0) bounds[0] = Index(parts.chunk);
    first.element = reduce(
        reduction_->reduction, "r", bounds,
        [&](const Indices& r) {
          std::map<std::uint64_t, Index> variables = fixed;
          for (std::size_t v = parts.leading; v < nest_.variables.size(); ++v)
            variables.emplace(id_of(v), v == parts.leading ? before + r[0] : r[v - parts.leading]);
          return rewrite(nest_.body, {}, [&](const Atom& atom) -> std::optional<Index> {
            const auto found = variables.find(atom.id);
            return atom.kind != Atom::Kind::kBound || found == variables.end() ? std::nullopt : std::optional(found->second);
          });
        },
        [&](const Indices& r) {
          std::vector<Condition> inside;
          if (parts.chunk * parts.of_divided > all.value()) inside.push_back(less(before + r[0], all));
          return inside;
        });
    return first;
  }

  // The group with the reduction of the parts' results in place of its own.
  Group over_parts(const Group& first, const Parts& parts) const {
    Group second = group_;
    const ValueInfo& info = facts_.info(first.result);
    const Operand results(static_cast<int>(group_.operands.size()), {info.type, to_indices(info.sizes)});
    const Element sum = reduce(reduction_->reduction, "part", {Index(parts.count)}, [&](const Indices& r) {
      Indices at;
      for (const std::size_t a : axes_) at.push_back(group_.position[a]);
      at.push_back(r[0]);
      return results(at);
    });
    std::map<const ElementNode*, Element> done;
    second.element = replaced(group_.element, reduction_, sum, done);
    second.operands.push_back(first.result);
    return second;
  }

  std::uint64_t id_of(std::size_t variable) const { return nest_.variables[variable].as_atom()->id; }

  GraphFacts& facts_;
  Group& group_;
  const ElementNode* reduction_ = nullptr;
  ReductionNest nest_;
  std::vector<std::size_t> axes_;
  Sizes row_sizes_;
  std::int64_t rows_ = 1;
};

}  // namespace

void split_reductions(GraphFacts& facts, std::vector<Group>& groups) {
  for (Group& group : groups)
    if (group.element && !group.library && !group.view && group.alternatives.empty()) Split(facts, group).make();
}

}  // namespace rewright::cuda
