#include "expressions/flatten.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.h"

namespace rewright {

namespace {

using Kind = ElementNode::Kind;

void add_to(IndexCode& code, int slot, std::int64_t c) {
  for (auto& [s, old] : code.affine)
    if (s == slot) {
      old += c;
      return;
    }
  code.affine.emplace_back(slot, c);
}

bool product_of_reads(const CodePointer& code, std::vector<CodePointer>& factors) {
  const bool ok =
      code->kind == Kind::kMultiply
          ? product_of_reads(code->arguments[0], factors) && product_of_reads(code->arguments[1], factors)
          : code->kind == Kind::kRead && code->affine && code->scalar == Scalar::kReal &&
                (code->zero_outside || std::find(code->checked.begin(), code->checked.end(), true) == code->checked.end());
  if (!ok) {
    factors.clear();
    return false;
  }
  if (code->kind == Kind::kRead) factors.push_back(code);
  return true;
}

void collect(const Code& code, std::set<int>& slots);

// The slots of the variables in an expression.
void collect(const IndexCode& code, std::set<int>& slots) {
  for (const auto& [slot, c] : code.affine) slots.insert(slot);
  for (const IndexCode::Term& term : code.others)
    for (const IndexCode::Factor& f : term.factors) {
      if (f.slot >= 0) slots.insert(f.slot);
      for (const IndexCode& a : f.arguments) collect(a, slots);
      if (f.load) collect(*f.load, slots);
    }
}
void collect(const std::vector<Guard>& guards, std::set<int>& slots) {
  for (const Guard& g : guards) collect(g.value, slots);
}
void collect(const Code& code, std::set<int>& slots) {
  collect(code.index, slots);
  for (const IndexCode& p : code.position) collect(p, slots);
  collect(code.guards, slots);
  for (const Code::Loop& loop : code.loops) {
    collect(loop.bound, slots);
    collect(loop.guards, slots);
    collect(loop.late, slots);
  }
  for (const CodePointer& a : code.arguments) collect(*a, slots);
}

bool mentions(const IndexCode& code, int slot) {
  if (code.coefficient(slot) != 0) return true;
  for (const auto& term : code.others)
    for (const auto& f : term.factors) {
      if (f.slot == slot || f.kind == Atom::Kind::kLoad) return true;
      for (const IndexCode& a : f.arguments)
        if (mentions(a, slot)) return true;
    }
  return false;
}

void place(Code& code, Guard guard) {
  std::size_t level = 0;
  for (std::size_t l = 0; l < code.loops.size(); ++l)
    if (mentions(guard.value, code.loops[l].slot)) level = l;
  Code::Loop& loop = code.loops[level];
  const bool linear = guard.value.is_affine() && guard.value.coefficient(loop.slot) != 0 && guard.test != Guard::Test::kNotZero;
  (linear ? loop.guards : loop.late).push_back(std::move(guard));
}

}  // namespace

Flattener::Flattener(std::vector<Sizes> operands, std::int64_t most_remembered)
    : operands_(std::move(operands)), most_remembered_(most_remembered) {}

int Flattener::variable(const Index& index, std::int64_t bound) {
  const int slot = static_cast<int>(ranges_.size());
  slots_[index.as_atom()->id] = slot;
  ranges_.push_back({0, std::max<std::int64_t>(bound - 1, 0)});
  live_.push_back(slot);
  return slot;
}

CodePointer Flattener::flatten(const Element& e) {
  if (const auto shared = reductions_.find(e.get()); shared != reductions_.end()) return remembered(shared->second);
  auto code = std::make_shared<Code>();
  code->kind = e->kind;
  code->scalar = e->scalar;
  code->real = e->real;
  code->integer = e->integer;
  code->function = e->function;
  switch (e->kind) {
    case Kind::kFromIndex:
      code->index = index(e->index);
      break;
    case Kind::kRead:
      read(*e, *code);
      break;
    case Kind::kReduce: {
      const std::size_t enclosing = live_.size();
      reduce(e, *code);
      live_.resize(enclosing);
      reductions_.emplace(e.get(), code);
      return remembered(code);
    }
    default:
      for (const Condition& c : e->conditions) code->guards.push_back(guard(c));
      for (const Element& a : e->arguments) code->arguments.push_back(flatten(a));
  }
  return code;
}

IndexCode Flattener::index(const Index& i) {
  IndexCode code;
  code.constant = i.constant_term();
  if (i.is_constant()) return code;
  for (const Monomial& m : i.polynomial()->monomials) {
    IndexCode::Term term{m.coefficient, {}};
    for (const AtomPointer& atom : m.factors) term.factors.push_back(factor(*atom));
    if (term.factors.size() == 1 && term.factors[0].kind == Atom::Kind::kBound)
      code.affine.emplace_back(term.factors[0].slot, m.coefficient);
    else
      code.others.push_back(std::move(term));
  }
  return code;
}

IndexCode::Factor Flattener::factor(const Atom& atom) {
  IndexCode::Factor f{atom.kind, -1, {}, nullptr};
  switch (atom.kind) {
    case Atom::Kind::kSymbol:
      throw Error(ErrorCode::kUnsupported, "the size " + atom.name + " is not known");
    case Atom::Kind::kBound:
      f.slot = slots_.at(atom.id);
      break;
    case Atom::Kind::kLoad:
      f.load = flatten(atom.element);
      break;
    default:
      for (const Index& a : atom.arguments) f.arguments.push_back(index(a));
  }
  return f;
}

Guard Flattener::guard(const Condition& c) {
  switch (c.relation) {
    case Condition::Relation::kEqual:
      return {index(c.right - c.left), Guard::Test::kZero};
    case Condition::Relation::kNotEqual:
      return {index(c.right - c.left), Guard::Test::kNotZero};
    case Condition::Relation::kLess:
      return {index(c.right - c.left - 1), Guard::Test::kNotNegative};
    case Condition::Relation::kLessEqual:
      return {index(c.right - c.left), Guard::Test::kNotNegative};
  }
  return {};
}

std::optional<Interval> Flattener::interval(const IndexCode& code) const {
  if (!code.is_affine()) return std::nullopt;
  Interval r{code.constant, code.constant};
  for (const auto& [slot, c] : code.affine) {
    const Interval& v = ranges_[static_cast<std::size_t>(slot)];
    r.low += c > 0 ? c * v.low : c * v.high;
    r.high += c > 0 ? c * v.high : c * v.low;
  }
  return r;
}

void Flattener::read(const ElementNode& e, Code& code) {
  code.operand = e.operand;
  code.zero_outside = e.zero_outside;
  const Sizes& sizes = operands_[static_cast<std::size_t>(e.operand)];
  std::int64_t stride = 1;
  code.affine = true;
  code.position.resize(sizes.size());
  code.checked.resize(sizes.size());
  for (std::size_t a = sizes.size(); a-- > 0;) {
    IndexCode p = index(e.position[a]);
    const auto range = interval(p);
    code.checked[a] = !range || range->low < 0 || range->high >= sizes[a];
    code.affine = code.affine && p.is_affine();
    if (p.is_affine()) {
      code.offset.constant += p.constant * stride;
      for (const auto& [slot, c] : p.affine) add_to(code.offset, slot, c * stride);
    }
    code.position[a] = std::move(p);
    stride *= sizes[a];
  }
}

// A nest of reductions of one kind becomes one nest of loops. Loops whose bounds are fixed are ordered so that the longest
// is innermost; guards (and bounds of reads padded with zeros) narrow the range of the loop that decides them.
void Flattener::reduce(const Element& e, Code& code) {
  code.reduction = e->reduction;
  const ElementNode* level = e.get();
  std::vector<Condition> conditions;
  Element body;
  for (;;) {
    const IndexCode bound = index(level->bound);
    const std::int64_t most = bound.is_affine() && interval(bound) ? interval(bound)->high : std::int64_t{1} << 40;
    code.loops.push_back({variable(level->index, most), bound, {}, {}});
    conditions.insert(conditions.end(), level->conditions.begin(), level->conditions.end());
    body = level->arguments[0];
    if (body->kind != Kind::kReduce || body->reduction != e->reduction || body->scalar != e->scalar) break;
    level = body.get();
  }
  const bool rectangular = std::all_of(code.loops.begin(), code.loops.end(),
                                       [](const Code::Loop& l) { return l.bound.is_affine() && l.bound.affine.empty(); });
  std::vector<Guard> guards;
  for (const Condition& c : conditions) guards.push_back(guard(c));
  CodePointer flat = flatten(body);
  if (e->reduction == Reduction::kSum && e->scalar == Scalar::kReal && rectangular && !keeps_zeros_outside_ &&
      product_of_reads(flat, code.factors)) {
    for (CodePointer& f : code.factors) {
      if (!f->zero_outside) continue;
      const Sizes& sizes = operands_[static_cast<std::size_t>(f->operand)];
      auto unchecked = std::make_shared<Code>(*f);
      for (std::size_t a = 0; a < sizes.size(); ++a) {
        if (!f->checked[a]) continue;
        IndexCode high = f->position[a];
        high.constant = sizes[a] - 1 - high.constant;
        for (auto& [slot, c] : high.affine) c = -c;
        guards.push_back({f->position[a], Guard::Test::kNotNegative});
        guards.push_back({std::move(high), Guard::Test::kNotNegative});
        unchecked->checked[a] = false;
      }
      f = unchecked;
    }
  }
  if (rectangular)
    std::stable_sort(code.loops.begin(), code.loops.end(),
                     [](const Code::Loop& a, const Code::Loop& b) { return a.bound.constant < b.bound.constant; });
  for (Guard& g : guards) place(code, std::move(g));
  code.arguments = {std::move(flat)};
}

// A reduction that does not depend on all enclosing variables is computed once for each value of those it depends on (the sum
// below a softmax, the mean inside a variance), unless it has too many values to keep.
CodePointer Flattener::remembered(const std::shared_ptr<Code>& code) {
  if (code->memory >= 0) return code;
  std::set<int> used;
  collect(*code, used);
  std::int64_t values = 1, evaluations = 1;
  std::vector<std::pair<int, std::int64_t>> axes;
  for (const int slot : live_) {
    const std::int64_t size = ranges_[static_cast<std::size_t>(slot)].high + 1;
    evaluations = std::min(most_remembered_ + 1, evaluations * std::min(size, most_remembered_));
    if (!used.contains(slot)) continue;
    values = std::min(most_remembered_ + 1, values * std::min(size, most_remembered_));
    axes.emplace_back(slot, size);
  }
  if (values > most_remembered_ || values == evaluations) return code;
  code->memory = static_cast<int>(memory_count_++);
  code->memory_axes = std::move(axes);
  return code;
}

}  // namespace rewright
