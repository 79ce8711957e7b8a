#include "generator/partial/statement.h"

#include <algorithm>
#include <random>

#include "rules/instance.h"
#include "rules/tester.h"

namespace rewright::generator {

namespace {

constexpr std::size_t kMostVariants = 20000;  // of the source's attributes, for one box

using Range = std::pair<Index, Index>;  // from, to

std::vector<rules::Expression> literals_of(const Attributes& attributes) {
  std::vector<rules::Expression> result;
  for (const AttributeValue& value : attributes) result.push_back(rules::Expression::literal(value));
  return result;
}

Substitution assigned_sizes(const Configuration& configuration, std::size_t assignment) {
  return [&configuration, assignment](const Atom& atom) -> std::optional<Index> {
    if (atom.kind != Atom::Kind::kSymbol) return std::nullopt;
    for (const Configuration::Symbol& s : configuration.symbols)
      if (s.name == atom.name) return Index(s.sizes[assignment]);
    return std::nullopt;
  };
}

// The positions that a denotation reads of its operands, for positions of the result in given ranges.
class Reads {
 public:
  // By operand and axis: from, to; nullopt: the whole axis, since it does not depend on the ranges or not linearly.
  using Ranges = std::vector<std::vector<std::optional<Range>>>;

  Reads(const Output& output, std::span<const TensorType> operands, const std::vector<Range>& within,
        const std::vector<bool>& partly)
      : operands_(operands) {
    for (const TensorType& t : operands) {
      ranges_.emplace_back(t.rank());
      seen_.emplace_back(t.rank(), false);
    }
    for (std::size_t a = 0; a < output.position.size(); ++a) {
      const std::uint64_t id = output.position[a].as_atom()->id;
      bounds_[id] = {within[a].first, within[a].second - 1};
      if (partly[a]) sliced_.insert(id);
    }
    visit(*output.element);
  }
  const Ranges& ranges() const { return ranges_; }

 private:
  void visit(const ElementNode& e) {
    if (e.kind == ElementNode::Kind::kReduce) bounds_[e.index.as_atom()->id] = {Index(0), e.bound - 1};
    if (e.kind == ElementNode::Kind::kRead)
      for (std::size_t axis = 0; axis < e.position.size(); ++axis) {
        const auto operand = static_cast<std::size_t>(e.operand);
        const std::optional<Range> range = range_of(e.position[axis]);
        std::optional<Range>& known = ranges_[operand][axis];
        known = !seen_[operand][axis] || known == range ? range : std::nullopt;
        seen_[operand][axis] = true;
      }
    for (const Element& argument : e.arguments) visit(*argument);
  }

  // Grows with every bound variable, or nullopt.
  std::optional<Range> range_of(const Index& index) const {
    bool sliced = false, linear = true;
    for_each_atom(index, [&](const Atom& atom) { sliced |= atom.kind == Atom::Kind::kBound && sliced_.count(atom.id) != 0; });
    if (!sliced) return std::nullopt;
    for (const Monomial& m : index.polynomial()->monomials) {
      std::size_t bound = 0;
      for (const AtomPointer& factor : m.factors) {
        bound += factor->kind == Atom::Kind::kBound;
        linear &= factor->kind == Atom::Kind::kBound || factor->kind == Atom::Kind::kSymbol;
      }
      linear &= bound == 0 || (bound == 1 && m.coefficient > 0);
    }
    if (!linear) return std::nullopt;
    const auto end = [&](bool last) {
      return substitute(index, [&](const Atom& atom) -> std::optional<Index> {
        const auto known = bounds_.find(atom.id);
        if (atom.kind != Atom::Kind::kBound || known == bounds_.end()) return std::nullopt;
        return last ? known->second.second : known->second.first;
      });
    };
    return Range{end(false), end(true) + 1};
  }

  std::span<const TensorType> operands_;
  Ranges ranges_;
  std::vector<std::vector<bool>> seen_;
  std::map<std::uint64_t, Range> bounds_;  // of each bound variable: the first and the last value
  std::set<std::uint64_t> sliced_;
};

}  // namespace

// Builds one side for the sizes and attributes of a statement.
class PartialStatements::Side {
 public:
  Side(const PartialStatements& all, const Statement& statement) : all_(all), statement_(statement) {
    for (const std::uint32_t leaf : all.inputs_)
      if (statement.absent.count(leaf) == 0) present_.push_back(leaf);
  }

  PatternValue add(const Operator& op, Attributes attributes, const std::vector<PatternValue>& inputs) {
    std::vector<TensorType> types;
    for (const PatternValue& v : inputs) types.push_back(type(v));
    const Inputs in = Inputs::of(std::span<const TensorType>(types)).types_only();
    attributes = op.normalized(std::move(attributes), in);
    const Definition d = op.define(attributes, in);
    for (const Requirement& r : d.requirements()) needs_.push_back(r.condition);
    types_.emplace_back();
    for (const Output& output : d.outputs()) types_.back().push_back(output.type);
    pattern_.nodes.push_back({&op, literals_of(attributes), inputs, static_cast<std::uint32_t>(d.outputs().size())});
    return PatternValue::node(static_cast<std::uint32_t>(pattern_.nodes.size() - 1));
  }

  // A constant with elements of the inputs' type.
  PatternValue constant(const Operator& op, const Attributes& attributes) {
    const PatternValue result = add(op, attributes, {});
    if (const auto field = op.field("type")) pattern_.nodes.back().attributes[*field] = rules::Expression::variable("T");
    return result;
  }

  TensorType type(const PatternValue& v) const {
    if (v.kind == PatternValue::Kind::kNode) return types_[v.number][v.output];
    return {DataType::kFloat, statement_.shapes[present_[v.number]]};
  }

  // Operands that are present.
  std::vector<PatternValue> operands(std::uint32_t number) {
    const Member& m = all_.enumeration_.members()[number];
    const Form& form = all_.enumeration_.forms().form(m.form);
    std::vector<PatternValue> result;
    for (std::size_t k = 0; k < form.operands.size(); ++k)
      if (const std::optional<PatternValue> v = value(m.operands[k])) result.push_back(*v);
    return result;
  }

  PatternValue member(std::uint32_t number) {
    if (const auto known = known_.find(number); known != known_.end()) return known->second;
    const Form& form = all_.enumeration_.forms().form(all_.enumeration_.members()[number].form);
    const Choice& choice = all_.enumeration_.forms().configuration().choices[form.choice];
    const std::vector<PatternValue> inputs = operands(number);
    if (choice.further) {  // sizes decide on its attributes
      std::vector<TensorType> types;
      for (const PatternValue& v : inputs) types.push_back(type(v));
      const std::vector<Attributes> variants = choice.attributes(types);
      if (form.variant >= variants.size()) throw Error(ErrorCode::kUnsupported, "sizes that " + choice.name + " cannot have");
      PatternValue result = add(*choice.op, variants[form.variant], inputs);
      for (const FurtherStep& step : choice.further(types)) {
        std::vector<PatternValue> results;
        for (std::uint32_t o = 0; o < types_[result.number].size(); ++o)
          results.push_back(PatternValue::node(result.number, o));
        if (step.constant) results.push_back(constant(*step.constant, step.constant_attributes));
        result = add(*step.op, step.attributes, results);
      }
      return known_[number] = result;
    }
    return known_[number] = add(*choice.op, statement_.attributes.at(number), inputs);
  }

  PatternValue slice(const PatternValue& v, const std::vector<Range>& ranges) {
    const Operator& op = registry().get("Slice");
    Indices begin, length;
    for (const Range& range : ranges) begin.push_back(range.first), length.push_back(range.second - range.first);
    if (length == type(v).shape) return v;
    Attributes attributes = op.defaults();
    attributes[op.field("begin").value()] = begin;
    attributes[op.field("length").value()] = length;
    return add(op, std::move(attributes), {v});
  }

  // The positions of a box of a result of this shape.
  std::vector<Range> ranges(const Box& box, const Indices& shape) const {
    std::vector<Range> result;
    for (std::size_t axis = 0; axis < box.size(); ++axis) {
      const std::vector<Cut>& cuts = all_.found_.regions.cuts[axis];
      const auto from = place(cuts[box[axis].first], shape[axis]), to = place(cuts[box[axis].second], shape[axis]);
      if (!from || !to) throw Error(ErrorCode::kUnsupported, "a size that cannot be halved");
      result.emplace_back(*from, *to);
    }
    return result;
  }

  struct Source {
    const Operator* op;
    std::vector<PatternValue> operands;
    Attributes attributes;
    Indices shape;              // of the whole result
    std::vector<Range> within;  // of the box
    Reads::Ranges reads;
  };
  // The source, and the positions that a box of its result reads.
  Source source_in(const Box& box) {
    const std::uint32_t number = all_.found_.source;
    const Form& form = all_.enumeration_.forms().form(all_.enumeration_.members()[number].form);
    Source s{all_.enumeration_.forms().configuration().choices[form.choice].op,
             operands(number),
             statement_.attributes.at(number),
             {},
             {},
             {}};
    std::vector<TensorType> types;
    for (const PatternValue& v : s.operands) types.push_back(type(v));
    const Definition d = s.op->define(s.attributes, Inputs::of(std::span<const TensorType>(types)));
    s.shape = d.outputs().at(0).type.shape;
    s.within = ranges(box, s.shape);
    std::vector<bool> partly;
    for (std::size_t a = 0; a < box.size(); ++a)
      partly.push_back(box[a] != std::pair<std::size_t, std::size_t>(0, all_.found_.regions.cells(a)));
    s.reads = Reads(d.outputs()[0], types, s.within, partly).ranges();
    return s;
  }

  PatternValue repaired(const Box& box, const Repair& repair) {
    Source s = source_in(box);
    for (const Repair::Change& change : repair.changes)
      std::get<Indices>(s.attributes[change.field])[change.entry] = change.value;
    for (std::size_t k = 0; k < s.operands.size(); ++k) {
      std::vector<Range> part;
      const Indices shape = type(s.operands[k]).shape;
      for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        const std::optional<Range>& read = s.reads[k][axis];
        const Repair::Ends& ends = repair.ends[k][axis];
        part.emplace_back(read && !ends.begin ? read->first : Index(0), read && !ends.end ? read->second : shape[axis]);
      }
      s.operands[k] = slice(s.operands[k], part);
    }
    return add(*s.op, std::move(s.attributes), s.operands);
  }

  // The conditions under which it is well-typed.
  const std::vector<Condition>& needs() const { return needs_; }

  Pattern finish(const PatternValue& root) {
    pattern_.outputs = {root};
    return canonical(pattern_);
  }

 private:
  // Is it an operand that is left out, or made of one?
  bool absent(ClassId id) const {
    const Class& c = all_.enumeration_.classes()[id];
    if (c.best == ~std::uint32_t{0}) return statement_.absent.count(c.leaf) != 0;
    const Member& m = all_.enumeration_.members()[c.best];
    const std::size_t count = all_.enumeration_.forms().form(m.form).operands.size();
    return all_.enumeration_.beforehand(id) &&
           std::any_of(m.operands.begin(), m.operands.begin() + static_cast<std::ptrdiff_t>(count),
                       [&](ClassId operand) { return absent(operand); });
  }

  std::optional<PatternValue> value(ClassId id) {
    if (absent(id)) return std::nullopt;
    const Class& c = all_.enumeration_.classes()[id];
    if (c.best != ~std::uint32_t{0}) return member(c.best);
    const auto at = std::find(present_.begin(), present_.end(), c.leaf);
    if (at == present_.end()) throw Error(ErrorCode::kUnsupported, "a leaf that the source does not have");
    return PatternValue::input(static_cast<std::uint32_t>(at - present_.begin()));
  }

  const PartialStatements& all_;
  const Statement& statement_;
  std::vector<std::uint32_t> present_;  // the leaves that are inputs
  Pattern pattern_;
  std::vector<std::vector<TensorType>> types_;  // of each node
  std::vector<Condition> needs_;
  std::map<std::uint32_t, PatternValue> known_;
};

PartialStatements::PartialStatements(const Enumeration& enumeration, const PartialEquivalence& found)
    : enumeration_(enumeration), found_(found) {
  const Forms& forms = enumeration.forms();
  for (const Leaf& leaf : forms.configuration().leaves) as_found_.shapes.push_back(leaf.type.shape);
  const auto visit = [&](const auto& self, std::uint32_t number, bool source) -> void {
    const Member& m = enumeration.members()[number];
    const Form& form = forms.form(m.form);
    as_found_.attributes[number] = form.attributes;
    for (std::size_t k = 0; k < form.operands.size(); ++k) {
      const Class& c = enumeration.classes()[m.operands[k]];
      if (c.best != ~std::uint32_t{0})
        self(self, c.best, source);
      else if (source && std::find(inputs_.begin(), inputs_.end(), c.leaf) == inputs_.end())
        inputs_.push_back(c.leaf);
    }
  };
  visit(visit, found.source, true);
  visit(visit, found.target, false);
}

std::size_t PartialStatements::cell(const std::vector<std::size_t>& at) const {
  std::size_t number = 0;
  for (std::size_t axis = 0; axis < at.size(); ++axis) number = number * found_.regions.cells(axis) + at[axis];
  return number;
}

bool PartialStatements::uniform(const Box& box) const {
  std::vector<std::size_t> at;
  for (const auto& [from, to] : box) at.push_back(from);
  const bool first = found_.regions.wrong[cell(at)];
  for (;;) {
    if (found_.regions.wrong[cell(at)] != first) return false;
    std::size_t axis = box.size();
    while (axis > 0 && ++at[axis - 1] == box[axis - 1].second) --axis, at[axis] = box[axis].first;
    if (axis == 0) return true;
  }
}

// The box cut along an axis wherever the cells before and after differ.
std::vector<Box> PartialStatements::parts(const Box& box, std::size_t axis) const {
  std::vector<Box> result;
  const auto [from, to] = box[axis];
  for (std::size_t c = from; c < to; ++c) {
    bool same = c > from;
    std::vector<std::size_t> at;
    for (const auto& range : box) at.push_back(range.first);
    at[axis] = c;
    while (same) {
      std::vector<std::size_t> before = at;
      --before[axis];
      same = found_.regions.wrong[cell(at)] == found_.regions.wrong[cell(before)];
      std::size_t a = box.size();
      while (a > 0 && (a - 1 == axis || ++at[a - 1] == box[a - 1].second)) {
        --a;
        if (a != axis) at[a] = box[a].first;
      }
      if (a == 0) break;
    }
    if (same)
      result.back()[axis].second = c + 1;
    else
      result.push_back(box), result.back()[axis] = {c, c + 1};
  }
  return result;
}

std::size_t PartialStatements::piece_count(const Box& box) const {
  if (uniform(box)) return 1;
  std::size_t count = 0;
  for (const Box& part : parts(box, best_axis(box))) count += piece_count(part);
  return count;
}

// The axis to cut, for the fewest pieces.
std::size_t PartialStatements::best_axis(const Box& box) const {
  std::size_t best = 0, fewest = ~std::size_t{0};
  for (std::size_t axis = 0; axis < box.size(); ++axis) {
    const std::vector<Box> cut = parts(box, axis);
    if (cut.size() < 2) continue;
    std::size_t count = 0;
    for (const Box& part : cut) count += piece_count(part);
    if (count < fewest) fewest = count, best = axis;
  }
  return best;
}

PatternValue PartialStatements::assemble(Side& side, const Box& box, const PatternValue& target, const Repairs& repairs) const {
  if (!uniform(box)) {
    const std::size_t axis = best_axis(box);
    std::vector<PatternValue> pieces;
    for (const Box& part : parts(box, axis)) pieces.push_back(assemble(side, part, target, repairs));
    const Operator& concat = registry().get("Concat");
    Attributes attributes = concat.defaults();
    attributes[concat.field("axis").value()] = Index(axis);
    return side.add(concat, std::move(attributes), pieces);
  }
  if (const auto repair = repairs.find(box); repair != repairs.end()) return side.repaired(box, repair->second);
  return side.slice(target, side.ranges(box, side.type(target).shape));
}

void PartialStatements::collect_wrong(const Box& box, std::vector<Box>& boxes) const {
  if (!uniform(box)) {
    for (const Box& part : parts(box, best_axis(box))) collect_wrong(part, boxes);
    return;
  }
  std::vector<std::size_t> at;
  for (const auto& range : box) at.push_back(range.first);
  if (found_.regions.wrong[cell(at)]) boxes.push_back(box);
}

namespace {

Box whole_box(const Regions& regions) {
  Box box;
  for (std::size_t axis = 0; axis < regions.cuts.size(); ++axis) box.emplace_back(0, regions.cells(axis));
  return box;
}

}  // namespace

Rule PartialStatements::frame(const Statement& statement) const {
  Rule rule;
  rule.name = "partial";
  rule.origin = RuleOrigin::kGenerated;
  for (const std::uint32_t leaf : inputs_)
    if (statement.absent.count(leaf) == 0)
      rule.inputs.push_back({enumeration_.forms().configuration().leaves[leaf].name,
                             {statement.shapes[leaf], false, {}, {}},
                             {TypePattern::Kind::kReal, DataType::kUndefined, "T"},
                             false});
  return rule;
}

std::optional<Rule> PartialStatements::rule(const Statement& statement, const Repairs& repairs,
                                            std::vector<Condition>* needs) const {
  Rule rule = frame(statement);
  try {
    Side source(*this, statement), target(*this, statement);
    rule.source = source.finish(source.member(found_.source));
    const PatternValue partly = target.member(found_.target);
    rule.target = target.finish(assemble(target, whole_box(found_.regions), partly, repairs));
    check_rule(rule);
    if (needs)
      for (const Condition& need : target.needs())
        if (std::find(source.needs().begin(), source.needs().end(), need) == source.needs().end() &&
            std::find(needs->begin(), needs->end(), need) == needs->end())
          needs->push_back(need);
  } catch (const Error&) {  // ill-typed for these sizes, or the source does not bind what the target needs
    return std::nullopt;
  }
  return rule;
}

bool PartialStatements::find_repairs() {
  std::vector<Box> boxes;
  collect_wrong(whole_box(found_.regions), boxes);
  for (const Box& box : boxes) {
    std::optional<Repair> repair = find_repair(box);
    if (!repair) return false;
    repairs_[box] = std::move(*repair);
  }
  return true;
}

// The ends that are read follow from numbers: for all assigned sizes the same. The attributes that then give the box are tried:
// no other entries than those of lists, from 0 up to what they are.
std::optional<Repair> PartialStatements::find_repair(const Box& box) const {
  const Configuration& configuration = enumeration_.forms().configuration();
  Repair repair;
  Side::Source s{};
  try {
    Side side(*this, as_found_);
    s = side.source_in(box);
    for (std::size_t k = 0; k < s.operands.size(); ++k) {
      const Indices shape = side.type(s.operands[k]).shape;
      repair.ends.emplace_back(shape.size());
      for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        if (!s.reads[k][axis]) continue;
        const auto& [from, to] = *s.reads[k][axis];
        // Whether the range begins before the operand does, or ends after it, has to be the same for all sizes.
        bool before = true, within = true, after = true, inside = true;
        for (std::size_t a = 0; a < configuration.assignments(); ++a) {
          const Substitution sizes = assigned_sizes(configuration, a);
          const std::int64_t begin = substitute(from, sizes).value();
          const std::int64_t beyond = substitute(to, sizes).value() - substitute(shape[axis], sizes).value();
          before &= begin <= 0, within &= begin >= 0, after &= beyond >= 0, inside &= beyond <= 0;
        }
        if ((!before && !within) || (!after && !inside)) return std::nullopt;
        repair.ends[k][axis] = {!within || before, !inside || after};
      }
    }
  } catch (const Error&) {
    return std::nullopt;
  }
  struct Entry {
    std::size_t field, entry;
    std::int64_t value;
  };
  std::vector<Entry> entries;
  std::size_t variants = 1;
  for (std::size_t f = 0; f < s.attributes.size(); ++f)
    if (const Indices* list = std::get_if<Indices>(&s.attributes[f]))
      for (std::size_t e = 0; e < list->size(); ++e)
        if (const auto value = (*list)[e].constant(); value && *value > 0) {
          entries.push_back({f, e, *value});
          variants *= static_cast<std::size_t>(*value) + 1;
        }
  if (variants > kMostVariants) return std::nullopt;
  // Fewest changes first.
  std::vector<std::vector<Repair::Change>> all;
  for (std::size_t v = 0; v < variants; ++v) {
    std::vector<Repair::Change> changes;
    std::size_t rest = v;
    for (const Entry& e : entries) {
      const auto less = static_cast<std::int64_t>(rest % (static_cast<std::size_t>(e.value) + 1));
      rest /= static_cast<std::size_t>(e.value) + 1;
      if (less > 0) changes.push_back({e.field, e.entry, e.value - less});
    }
    all.push_back(std::move(changes));
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  for (std::vector<Repair::Change>& changes : all) {
    repair.changes = std::move(changes);
    Rule rule = frame(as_found_);
    try {
      Side source(*this, as_found_), target(*this, as_found_);
      const PatternValue wanted = source.slice(source.member(found_.source), s.within);
      const PatternValue made = target.repaired(box, repair);
      if (!(source.type(wanted) == target.type(made))) continue;
      rule.source = source.finish(wanted);
      rule.target = target.finish(made);
      bool equal = true;
      std::mt19937_64 random(1);
      for (std::size_t a = 0; a < configuration.assignments() && equal; ++a) {
        std::vector<TensorType> types;
        std::map<std::string, AttributeValue> sizes;
        for (const std::uint32_t leaf : inputs_) {
          types.push_back({DataType::kFloat, substitute(as_found_.shapes[leaf], assigned_sizes(configuration, a))});
          for (const Index& size : as_found_.shapes[leaf])
            for_each_atom(size, [&](const Atom& atom) { sizes[atom.name] = assigned_sizes(configuration, a)(atom).value(); });
        }
        const auto instance = make_instance(rule, types, sizes);
        equal = instance && !compare_sides(rule, *instance, 0, random);
      }
      if (equal) return repair;
    } catch (const Error&) {  // ill-typed with these attributes
    }
  }
  return std::nullopt;
}

}  // namespace rewright::generator
