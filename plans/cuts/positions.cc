#include "plans/cuts/positions.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "verifier/divisions.h"
#include "verifier/solver.h"

namespace rewright::plans {

using proof::Guards;
using proof::replaced;

namespace {

using Kind = ElementNode::Kind;

void collect(const Element& e, std::vector<Variable>& around, std::vector<Read>& reads) {
  if (!e) return;
  const auto of_loads = [&](const Index& index) {
    for_each_atom(index, [&](const Atom& a) {
      if (a.kind == Atom::Kind::kLoad) collect(a.element, around, reads);
    });
  };
  for (const Index& p : e->position) of_loads(p);
  if (e->kind == Kind::kFromIndex) of_loads(e->index);
  for (const Condition& c : e->conditions) of_loads(c.left), of_loads(c.right);
  if (e->kind == Kind::kRead) reads.push_back({static_cast<std::size_t>(e->operand), e->position, around, e->zero_outside});
  const bool reduces = e->kind == Kind::kReduce;
  if (reduces) around.push_back({e->index, e->bound, e.get()});
  for (const Element& argument : e->arguments) collect(argument, around, reads);
  if (reduces) around.pop_back();
}

bool depends(const Index& index, const Index& on) {
  bool found = false;
  const std::function<void(const Index&)> visit = [&](const Index& i) {
    for_each_atom(i, [&](const Atom& a) { found |= Index::atom(std::make_shared<const Atom>(a)) == on; });
  };
  visit(index);
  return found;
}

bool is_read_at_contents(const Index& index) {
  bool found = false;
  for_each_atom(index, [&](const Atom& a) { found |= a.kind == Atom::Kind::kLoad || a.kind == Atom::Kind::kPosition; });
  return found;
}

// The least and the largest value of a polynomial whose variables have ranges and stand alone; nothing if one does not.
struct Extremes {
  Index low, high;
};
std::optional<Extremes> extremes(const Index& index, const std::vector<Variable>& ranges) {
  Extremes result{index, index};
  for (const Variable& v : ranges) {
    if (!depends(index, v.name)) continue;
    const Index slope = replaced(index, {{v.name, v.name + 1}}) - index;
    const auto factor = slope.constant();
    if (!factor) return std::nullopt;
    const Index first = 0, last = v.size - 1;
    result.low = replaced(result.low, {{v.name, *factor > 0 ? first : last}});
    result.high = replaced(result.high, {{v.name, *factor > 0 ? last : first}});
  }
  return result;
}

Index at_least_zero(const Index& value) {
  const auto known = value.constant();
  return known && *known < 0 ? Index(0) : value;
}

}  // namespace

namespace {

// The dependence of an element on some operands.
enum class Degree { kZero, kNone, kLinear, kOther };

Degree sum_of(Degree a, Degree b) {
  if (a == Degree::kZero) return b;
  return b == Degree::kZero || a == b ? a : Degree::kOther;
}
Degree product_of(Degree a, Degree b) {
  if (a == Degree::kOther || b == Degree::kOther) return Degree::kOther;
  if (a == Degree::kZero || b == Degree::kZero) return Degree::kZero;
  if (a == Degree::kNone) return b;
  return b == Degree::kNone ? a : Degree::kOther;
}

Degree degree_of(const Element& e, const std::function<bool(std::size_t)>& in) {
  bool at_contents = false;
  const auto look = [&](const Index& index) {
    for_each_atom(index, [&](const Atom& a) {
      if (a.kind == Atom::Kind::kLoad && degree_of(a.element, in) > Degree::kNone) at_contents = true;
    });
  };
  for (const Index& p : e->position) look(p);
  if (e->kind == Kind::kFromIndex) look(e->index);
  if (e->kind == Kind::kReduce) look(e->bound);
  for (const Condition& c : e->conditions) look(c.left), look(c.right);
  if (at_contents) return Degree::kOther;
  std::vector<Degree> of;
  for (const Element& argument : e->arguments) of.push_back(degree_of(argument, in));
  const bool none = std::all_of(of.begin(), of.end(), [](Degree d) { return d <= Degree::kNone; });
  switch (e->kind) {
    case Kind::kConstant:
      return e->scalar == Scalar::kReal && e->real == Real(0) ? Degree::kZero : Degree::kNone;
    case Kind::kFromIndex:
      return Degree::kNone;
    case Kind::kRead:
      return in(static_cast<std::size_t>(e->operand)) ? Degree::kLinear : Degree::kNone;
    case Kind::kAdd:
    case Kind::kChoose:
      return sum_of(of[0], of[1]);
    case Kind::kSelect:
      return of[0] <= Degree::kNone ? sum_of(of[1], of[2]) : Degree::kOther;
    case Kind::kMultiply:
      return product_of(of[0], of[1]);
    case Kind::kDivide:
      return of[1] <= Degree::kNone ? of[0] : Degree::kOther;
    case Kind::kConvert:
      if (none) return Degree::kNone;
      return e->scalar == Scalar::kReal && e->arguments[0]->scalar == Scalar::kReal ? of[0] : Degree::kOther;
    default:
      return none ? Degree::kNone : Degree::kOther;
  }
}

}  // namespace

bool is_linear(const Element& element, const std::function<bool(std::size_t operand)>& in) {
  return element && degree_of(element, in) == Degree::kLinear;
}

std::vector<Read> reads_of(const Output& output) {
  std::vector<Read> reads;
  std::vector<Variable> around;
  collect(output.element, around, reads);
  return reads;
}

std::vector<Variable> divisible_reductions(const Output& output) {
  // Through what is added to the sum, scales it or converts it; a maximum of more than one variable is nested in itself.
  std::vector<Variable> result;
  const std::function<void(const Element&, std::optional<Reduction>)> visit = [&](const Element& e,
                                                                                  std::optional<Reduction> within) {
    if (!e) return;
    switch (e->kind) {
      case Kind::kReduce:
        if (within && *within != e->reduction) return;
        result.push_back({e->index, e->bound, e.get()});
        visit(e->arguments[0], e->reduction);
        return;
      case Kind::kAdd:
      case Kind::kMultiply:
      case Kind::kConvert:
      case Kind::kDivide:
        if (within) return;  // within a reduction only what it is of directly is the same reduction
        for (const Element& argument : e->arguments) visit(argument, within);
        return;
      default:
        return;
    }
  };
  visit(output.element, std::nullopt);
  return result;
}

std::vector<Index> candidate_units(const std::vector<Read>& reads, const Variable& variable) {
  std::vector<Index> units{1};
  const auto add = [&](const Index& unit) {
    if (unit.constant() == 1 || unit.constant() == 0) return;
    if (std::find(units.begin(), units.end(), unit) == units.end() && units.size() < 6) units.push_back(unit);
  };
  for (const Read& read : reads)
    for (const Index& p : read.position)
      for_each_atom(p, [&](const Atom& a) {
        if (a.kind != Atom::Kind::kFloorDiv && a.kind != Atom::Kind::kMod) return;
        if (!depends(a.arguments[0], variable.name) || depends(a.arguments[1], variable.name)) return;
        add(a.arguments[1]);
        // (v * stride) div d: as many values as make a whole step.
        const Index slope = replaced(a.arguments[0], {{variable.name, variable.name + 1}}) - a.arguments[0];
        if (slope.constant() == 1) return;
        const Index quotient = floor_div(a.arguments[1], slope);
        if (quotient * slope == a.arguments[1]) add(quotient);
      });
  return units;
}

std::optional<std::vector<Share>> shares_of(const Output& output, const std::vector<Read>& reads, const Variable& variable,
                                            const Index& unit, OperandTypes types) {
  proof::Solver solver;
  const Index u = Index::symbol("unit!"), t = Index::symbol("within!");
  Guards ranges = proof::within(t, unit);
  for (const proof::Guard& g : proof::within(u * unit + t, variable.size)) ranges.push_back(g);
  ranges.push_back(proof::non_negative(u));
  for (std::size_t a = 0; a < output.position.size(); ++a)
    for (const proof::Guard& g : proof::within(output.position[a], output.type.shape[a])) ranges.push_back(g);
  const proof::Replacements divided{{variable.name, u * unit + t}};
  std::vector<Share> shares(types.size());
  std::vector<bool> seen(types.size(), false);
  for (const Read& read : reads) {
    const bool outside = variable.reduction && std::none_of(read.variables.begin(), read.variables.end(),
                                                            [&](const Variable& v) { return v.name == variable.name; });
    Share share;
    if (outside) {
      share.kind = Share::Kind::kFirst;
    } else {
      Guards known = ranges;
      std::vector<Variable> inner{{t, unit, nullptr}};
      for (const Variable& v : read.variables) {
        if (v.name == variable.name) continue;
        for (const proof::Guard& g : proof::within(v.name, replaced(v.size, divided))) known.push_back(g);
        inner.push_back(v);
      }
      // A unit of the work has all of the other axes of the result.
      for (std::size_t a = 0; a < output.position.size(); ++a)
        if (!(output.position[a] == variable.name)) inner.push_back({output.position[a], output.type.shape[a], nullptr});
      for (std::size_t a = 0; a < read.position.size(); ++a) {
        if (is_read_at_contents(read.position[a])) continue;  // wherever the contents say: the axis is whole
        const Index p = proof::without_divisions(replaced(read.position[a], divided), known, solver);
        const Index step = replaced(p, {{u, u + 1}}) - p;
        if (step == Index(0)) continue;
        if (depends(step, u) || share.kind == Share::Kind::kCut) return std::nullopt;
        const auto range = extremes(replaced(p, {{u, Index(0)}}), inner);
        if (!range || depends(step, t)) return std::nullopt;
        for (const Variable& v : inner)
          if (depends(step, v.name) || depends(range->low, v.name) || depends(range->high, v.name)) return std::nullopt;
        for (const Index& o : output.position)
          if (depends(step, o) || depends(range->low, o) || depends(range->high, o)) return std::nullopt;
        if (const auto known_step = step.constant(); known_step && *known_step < 0) return std::nullopt;
        share = {Share::Kind::kCut, a, step, at_least_zero(-range->low), range->high + 1 - step};
      }
    }
    if (!seen[read.operand]) {
      shares[read.operand] = share, seen[read.operand] = true;
      continue;
    }
    Share& before = shares[read.operand];
    if (before.kind != share.kind || before.axis != share.axis || !(before.unit == share.unit)) return std::nullopt;
    before.before = max(before.before, share.before), before.after = max(before.after, share.after);
  }
  return shares;
}

}  // namespace rewright::plans
