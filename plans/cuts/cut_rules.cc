#include <algorithm>
#include <initializer_list>
#include <map>

#include "base/error.h"
#include "plans/cuts/cut.h"
#include "verifier/guard.h"

namespace rewright::plans {

namespace {

const Index kFirstUnits = Index::symbol("A"), kSecondUnits = Index::symbol("B");

// The sizes that a model leaves open, under names that no other variable of the rule has. The one that is cut, if it is one of
// them, is A + B wherever it stands.
class Symbols {
 public:
  explicit Symbols(const Index& units) {
    const Atom* atom = units.as_atom();
    if (atom && atom->kind == Atom::Kind::kSymbol) names_.emplace(atom->name, kFirstUnits + kSecondUnits);
  }
  Index operator()(const Index& index) {
    return substitute(index, [&](const Atom& a) -> std::optional<Index> {
      if (a.kind != Atom::Kind::kSymbol) return std::nullopt;
      const auto [at, is_new] = names_.try_emplace(a.name, Index::symbol("n" + std::to_string(names_.size())));
      return at->second;
    });
  }

 private:
  std::map<std::string, Index, std::less<>> names_;
};

class RuleBuilder {
 public:
  RuleBuilder(const Operator& op, const Attributes& attributes, OperandTypes types, const Cut& cut, SizesInRule sizes)
      : op_(op), cut_(cut), symbols_(cut.units), types_(types), whole_(types.begin(), types.end()) {
    const Index both = kFirstUnits + kSecondUnits;
    for (std::size_t k = 0; k < whole_.size(); ++k) {
      if (!whole_[k]) continue;
      Indices shape = whole_[k]->shape;
      for (Index& size : shape) size = sizes == SizesInRule::kAny ? any(size) : symbols_(size);
      const Share& s = cut.operands[k];
      if (s.kind == Share::Kind::kCut) shape[s.axis] = symbols_(s.unit) * both + rest(k);
      whole_[k]->shape = std::move(shape);
    }
    for (const AttributeValue& value : attributes)
      attributes_.push_back(with_numbers(value, [&](const Index& index) { return symbols_(index); }));
    for (const AttributeChange& c : cut.changes)
      if (c.kind == AttributeChange::Kind::kScaled) set_entry(attributes_, c.place, symbols_(c.multiplier) * both);
  }

  // The rule of one output: that of several at once takes far longer to prove.
  Rule run(const std::string& name, std::uint32_t output) {
    Rule rule;
    rule.name = name;
    rule.description = op_.name() + " in two parts";
    std::vector<PatternValue> operands;
    for (std::size_t k = 0; k < whole_.size(); ++k) {
      operands.push_back(PatternValue::absent());
      if (!whole_[k]) continue;
      operands.back() = add_input(rule, "x", k);
      if (cut_.operands[k].kind != Share::Kind::kPartial) continue;
      sums_[k] = {operands.back(), add_input(rule, "y", k)};
      operands.back() = add(rule.source, "Add", {}, {sums_[k].first, sums_[k].second});
    }
    while (!operands.empty() && operands.back().kind == PatternValue::Kind::kAbsent) operands.pop_back();
    const auto outputs = static_cast<std::uint32_t>(cut_.outputs.size());
    rule.source.nodes.push_back({&op_, literals(attributes_), operands, outputs});
    const auto whole = static_cast<std::uint32_t>(rule.source.nodes.size() - 1);
    const PatternValue first = part(rule.target, operands, true, outputs), second = part(rule.target, operands, false, outputs);
    rule.source.outputs.push_back(PatternValue::node(whole, output));
    rule.target.outputs.push_back(
        combined(rule.target, cut_.outputs[output], {first.kind, first.number, output}, {second.kind, second.number, output}));
    rule.source = canonical(rule.source);
    rule.target = canonical(rule.target);
    if (!cut_.divides()) return rule;
    rule.conditions.push_back(less_equal(1, kFirstUnits));
    rule.conditions.push_back(less_equal(1, kSecondUnits));
    // Halos lie in the neighbour's part.
    for (std::size_t k = 0; k < whole_.size(); ++k) {
      const Share& s = cut_.operands[k];
      if (!whole_[k] || s.kind != Share::Kind::kCut) continue;
      if (const Index before = symbols_(s.before); !(before == Index(0)))
        rule.conditions.push_back(less_equal(before, symbols_(s.unit) * kFirstUnits));
      if (const Index after = symbols_(s.rows_after()); !(after == Index(0)))
        rule.conditions.push_back(less_equal(after, symbols_(s.unit) * kSecondUnits + rest(k)));
    }
    return rule;
  }

 private:
  PatternValue add_input(Rule& rule, const std::string& name, std::size_t k) const {
    PatternInput input;
    input.name = name + std::to_string(k);
    input.shape.front = whole_[k]->shape;
    input.shape.open = false;
    input.type = {TypePattern::Kind::kFixed, whole_[k]->type, ""};
    rule.inputs.push_back(std::move(input));
    return PatternValue::input(static_cast<std::uint32_t>(rule.inputs.size() - 1));
  }

  // A number of a size stands for any; equal numbers for equal ones. 1 is what broadcasts.
  Index any(const Index& size) {
    const auto number = size.constant();
    if (!number || *number == 1) return symbols_(size);
    return numbers_.try_emplace(*number, Index::symbol("s" + std::to_string(numbers_.size()))).first->second;
  }

  // Rows of a cut operand that no whole unit has.
  Index rest(std::size_t k) {
    const Share& s = cut_.operands[k];
    return symbols_(types_[k]->shape[s.axis] - s.unit * cut_.units);
  }

  static std::vector<Expression> literals(const Attributes& attributes) {
    std::vector<Expression> result;
    for (const AttributeValue& value : attributes) result.push_back(Expression::literal(value));
    return result;
  }

  static PatternValue add(Pattern& side, std::string_view name,
                          std::initializer_list<std::pair<std::string_view, AttributeValue>> given,
                          std::vector<PatternValue> inputs) {
    const Operator& op = registry().get(name);
    Attributes attributes = op.defaults();
    for (const auto& [field, value] : given) attributes.at(op.field(field).value()) = value;
    side.nodes.push_back({&op, literals(attributes), std::move(inputs), 1});
    return PatternValue::node(static_cast<std::uint32_t>(side.nodes.size() - 1));
  }

  PatternValue part(Pattern& side, const std::vector<PatternValue>& operands, bool is_first, std::uint32_t outputs) {
    const Index& units = is_first ? kFirstUnits : kSecondUnits;
    std::vector<PatternValue> parts = operands;
    for (std::size_t k = 0; k < parts.size(); ++k) {
      const Share& s = cut_.operands[k];
      if (!whole_[k]) continue;
      const Indices& shape = whole_[k]->shape;
      if (s.kind == Share::Kind::kFirst && !is_first)
        parts[k] = add(side, "Fill", {{"value", Real(0)}, {"shape", shape}, {"type", whole_[k]->type}}, {});
      if (s.kind == Share::Kind::kPartial) parts[k] = is_first ? sums_.at(k).first : sums_.at(k).second;
      if (s.kind != Share::Kind::kCut) continue;
      const Index unit = symbols_(s.unit);
      Indices begin(shape.size(), Index(0)), length = shape;
      if (is_first) {
        length[s.axis] = unit * units + symbols_(s.rows_after());
      } else {
        begin[s.axis] = unit * kFirstUnits - symbols_(s.before);
        length[s.axis] = unit * units + symbols_(s.before) + rest(k);
      }
      parts[k] =
          add(side, "Slice", {{"begin", begin}, {"length", length}, {"step", Indices(shape.size(), Index(1))}}, {parts[k]});
    }
    Attributes attributes = attributes_;
    for (const AttributeChange& c : cut_.changes) {
      if (c.kind == AttributeChange::Kind::kScaled) set_entry(attributes, c.place, symbols_(c.multiplier) * units);
      if (c.kind == AttributeChange::Kind::kFrontPad && !is_first) set_entry(attributes, c.place, 0);
      if (c.kind == AttributeChange::Kind::kBackPad && is_first) set_entry(attributes, c.place, 0);
    }
    // Attributes that mention the cut size by the model's own name: A + B becomes the part's units.
    const Index& others = is_first ? kSecondUnits : kFirstUnits;
    if (const Atom* atom = cut_.units.as_atom(); atom && atom->kind == Atom::Kind::kSymbol)
      for (AttributeValue& value : attributes)
        value = with_numbers(std::move(value), [&](const Index& index) {
          return proof::replaced(index, {{others, Index(0)}});
        });
    side.nodes.push_back({&op_, literals(attributes), std::move(parts), outputs});
    return PatternValue::node(static_cast<std::uint32_t>(side.nodes.size() - 1));
  }

  static PatternValue combined(Pattern& side, const Share& share, PatternValue first, PatternValue second) {
    switch (share.kind) {
      case Share::Kind::kCut:
        return add(side, "Concat", {{"axis", Index(share.axis)}}, {first, second});
      case Share::Kind::kPartial: {
        const char* names[] = {"Add", "Mul", "Max", "Min"};
        return add(side, names[static_cast<int>(share.reduction)], {}, {first, second});
      }
      default:
        return first;
    }
  }

  const Operator& op_;
  const Cut& cut_;
  Symbols symbols_;
  std::map<std::size_t, std::pair<PatternValue, PatternValue>> sums_;  // of operands that are held as partial sums
  std::map<std::int64_t, Index> numbers_;                              // the variables that stand for numbers
  OperandTypes types_;                                                 // of the model
  std::vector<std::optional<TensorType>> whole_;                       // of the rule's source
  Attributes attributes_;
};

// Plans come from files: an axis or an attribute may be one that is not there.
void require_fit(const Operator& op, const Attributes& attributes, OperandTypes types, const Cut& cut) {
  const auto require = [&](bool holds, const std::string& what) {
    if (!holds) throw Error(ErrorCode::kBadInput, "a cut of " + op.name() + ": " + what);
  };
  require(cut.operands.size() == types.size(), "it has " + std::to_string(types.size()) + " operands");
  const Definition definition = op.define(attributes, Inputs::of(types).types_only());
  require(cut.outputs.size() == definition.outputs().size(),
          "it has " + std::to_string(definition.outputs().size()) + " outputs");
  for (std::size_t k = 0; k < types.size(); ++k) {
    const Share& s = cut.operands[k];
    require(s.kind != Share::Kind::kPartial || (types[k] && is_real(types[k]->type) && s.reduction == Reduction::kSum),
            "operand " + std::to_string(k) + " is no partial sum");
    require(s.kind != Share::Kind::kCut || (types[k] && s.axis < types[k]->rank()),
            "operand " + std::to_string(k) + " has no axis " + std::to_string(s.axis));
  }
  for (std::size_t o = 0; o < cut.outputs.size(); ++o) {
    const Share& s = cut.outputs[o];
    require(s.kind == Share::Kind::kCut || s.kind == Share::Kind::kPartial, "an output is cut or partial");
    require(s.kind != Share::Kind::kCut || s.axis < definition.outputs()[o].type.rank(),
            "output " + std::to_string(o) + " has no axis " + std::to_string(s.axis));
  }
  for (const AttributeChange& c : cut.changes) {
    const auto [field, entry] = c.place;
    require(field < attributes.size(), "it has no attribute " + std::to_string(field));
    const auto* list = std::get_if<Indices>(&attributes[field]);
    require(entry ? list && *entry < list->size() : std::holds_alternative<Index>(attributes[field]),
            "attribute " + std::to_string(field) + " has no such entry");
  }
}

}  // namespace

std::vector<Rule> cut_rules(const Operator& op, const Attributes& attributes, OperandTypes types, const Cut& cut,
                            SizesInRule sizes) {
  require_fit(op, attributes, types, cut);
  std::vector<Rule> rules;
  const auto add_rules = [&](const Attributes& of, OperandTypes operands, const Cut& c, const std::string& name) {
    for (std::uint32_t o = 0; o < c.outputs.size(); ++o) rules.push_back(RuleBuilder(op, of, operands, c, sizes).run(name, o));
  };
  add_rules(attributes, types, cut, "cut");
  // The operator behind a first cut has no pad in front, and the rows that the first unit reads in front of its own are rows of
  // the operand's. Where that is the same operator on an operand like the first, the rule above is about it as well.
  const bool is_other = std::any_of(cut.changes.begin(), cut.changes.end(),
                                    [](const AttributeChange& c) { return c.kind == AttributeChange::Kind::kFrontPad; }) ||
                        std::any_of(cut.operands.begin(), cut.operands.end(),
                                    [](const Share& s) { return s.kind == Share::Kind::kCut && !(s.before == Index(0)); });
  if (!is_other) return rules;
  Cut behind = cut;
  std::vector<std::optional<TensorType>> rest(types.begin(), types.end());
  for (std::size_t k = 0; k < rest.size(); ++k) {
    Share& s = behind.operands[k];
    if (!rest[k] || s.kind != Share::Kind::kCut) continue;
    rest[k]->shape[s.axis] += s.before;
    s.after += s.before, s.before = 0;
  }
  Attributes without_pad = attributes;
  for (const AttributeChange& c : cut.changes)
    if (c.kind == AttributeChange::Kind::kFrontPad) set_entry(without_pad, c.place, 0);
  add_rules(without_pad, rest, behind, "cut_behind");
  return rules;
}

}  // namespace rewright::plans
