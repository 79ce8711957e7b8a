#include "generator/rule_writer.h"

#include <algorithm>
#include <map>
#include <optional>

#include "rules/tester.h"

namespace rewright::generator {

namespace {

using Kind = Expression::Kind;

bool has_symbols(const Attributes& attributes) {
  bool found = false;
  const auto look = [&](const Index& i) { for_each_atom(i, [&](const Atom& a) { found |= a.kind == Atom::Kind::kSymbol; }); };
  for (const AttributeValue& v : attributes) {
    if (const Index* i = std::get_if<Index>(&v)) look(*i);
    if (const Indices* l = std::get_if<Indices>(&v)) std::for_each(l->begin(), l->end(), look);
  }
  return found;
}

std::string input_name(std::uint32_t number) {
  static constexpr std::string_view kLetters = "xyzuvwabcdefghijklmnopqrst";
  return number < kLetters.size() ? std::string(1, kLetters[number]) : "x" + std::to_string(number);
}

// What is said of the inputs, and the attributes of each expression that has
// any.
struct Typing {
  std::vector<ShapePattern> inputs;
  std::vector<Attributes> attributes;
};

// Sizes with a symbol of their own for each axis of each input, equal only
// where the typing of both sides asks for it.
class Generalizer {
 public:
  // With `numbers`, sizes that were numbers (of kernels) get a symbol too.
  Generalizer(const Equation& equation, Forms& forms, bool numbers) : q_(equation), forms_(forms), numbers_(numbers) {}

  std::optional<Typing> run() {
    for (std::uint32_t at = 0; at < q_.expressions.size(); ++at) prepare(at);
    for (int round = 0; round < 12; ++round) {
      changed_ = false;
      try {
        if (!infer()) return std::nullopt;
      } catch (const Error&) {
        return std::nullopt;
      }
      if (!changed_) return typing();
    }
    return std::nullopt;
  }

 private:
  Index fresh(const std::string& name, const Index& original) {
    originals_[name] = original;
    return Index::symbol(name);
  }

  void prepare(std::uint32_t at) {
    const Expression& e = q_.expressions[at];
    types_.push_back(forms_.type(e.type).type);
    attributes_.emplace_back();
    if (e.kind == Kind::kVariable) {
      std::string letter = input_name(e.number);
      for (char& c : letter) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
      for (std::size_t a = 0; a < types_[at].rank(); ++a)
        if (Index& size = types_[at].shape[a]; numbers_ || !size.is_constant()) size = fresh(letter + std::to_string(a), size);
    } else if (e.kind == Kind::kConstant) {
      const Leaf& leaf = forms_.configuration().leaves[e.number];
      attributes_[at] = substitute(leaf.attributes, [&](const Atom& atom) -> std::optional<Index> {
        if (atom.kind != Atom::Kind::kSymbol) return std::nullopt;
        return fresh("Q" + std::to_string(at) + atom.name, Index::symbol(atom.name));
      });
    }
  }

  Substitution current() const {
    return [this](const Atom& atom) -> std::optional<Index> {
      if (atom.kind != Atom::Kind::kSymbol) return std::nullopt;
      const auto known = solved_.find(atom.name);
      return known == solved_.end() ? std::nullopt : std::optional(known->second);
    };
  }
  Substitution back() const {
    return [this](const Atom& atom) -> std::optional<Index> {
      const auto known = originals_.find(atom.name);
      return atom.kind != Atom::Kind::kSymbol || known == originals_.end() ? std::nullopt : std::optional(known->second);
    };
  }

  // Solves a symbol out of left = right; sizes of constants first, they follow
  // from those of inputs.
  bool unify(const Index& left, const Index& right) {
    const Index difference = substitute(left - right, current());
    if (difference.is_constant()) return difference == Index(0);
    const Monomial* best = nullptr;
    for (const Monomial& m : difference.polynomial()->monomials) {
      if (m.factors.size() != 1 || m.factors[0]->kind != Atom::Kind::kSymbol || std::abs(m.coefficient) != 1) continue;
      if (!best || m.factors[0]->name[0] == 'Q' || best->factors[0]->name[0] != 'Q') best = &m;
    }
    if (!best) return false;
    const Index symbol = Index::atom(best->factors[0]);
    const Index rest = best->coefficient == 1 ? symbol - difference : symbol + difference;
    bool inside = false;
    for_each_atom(rest, [&](const Atom& a) { inside |= a.kind == Atom::Kind::kSymbol && a.name == best->factors[0]->name; });
    if (inside) return false;
    solved_[best->factors[0]->name] = rest;
    for (auto& [name, value] : solved_) value = substitute(value, current());
    changed_ = true;
    return true;
  }

  std::vector<TensorType> define(const Operator& op, const Attributes& attributes, std::span<const TensorType> operands) {
    const Definition d = op.define(attributes, Inputs::of(operands).types_only());
    for (const Requirement& r : d.requirements())
      if (r.condition.relation == Condition::Relation::kEqual && r.condition.decided() != true &&
          !unify(r.condition.left, r.condition.right))
        throw Error(ErrorCode::kUnsupported, r.message);
    std::vector<TensorType> types;
    for (const Output& o : d.outputs()) types.push_back(o.type);
    return types;
  }

  bool infer() {
    std::vector<TensorType> known;
    for (std::uint32_t at = 0; at < q_.expressions.size(); ++at) {
      const Expression& e = q_.expressions[at];
      if (e.kind == Kind::kVariable) {
        known.push_back({DataType::kFloat, substitute(types_[at].shape, current())});
        continue;
      }
      if (e.kind == Kind::kConstant) {
        attributes_[at] = substitute(attributes_[at], current());
        known.push_back(define(*forms_.configuration().leaves[e.number].op, attributes_[at], {}).at(0));
        continue;
      }
      std::vector<TensorType> operands;
      std::vector<TypeId> ids;
      for (const std::uint32_t a : e.arguments)
        if (a != Expression::kNone) operands.push_back(known[a]), ids.push_back(q_.expressions[a].type);
      const Choice& choice = forms_.configuration().choices[e.number];
      const Form* form = nullptr;
      for (const FormId f : forms_.find(e.number, ids))
        if (forms_.form(f).variant == e.variant) form = &forms_.form(f);
      if (!form) return false;
      attributes_[at] = form->attributes;
      if (has_symbols(form->attributes)) {
        bool found = false;
        for (Attributes& a : choice.attributes(operands)) {
          a = choice.op->normalized(std::move(a), Inputs::of(std::span<const TensorType>(operands)).types_only());
          if (found || !(substitute(a, back()) == form->attributes)) continue;
          attributes_[at] = a;
          found = true;
        }
        if (!found) return false;
      }
      std::vector<TensorType> results = define(*choice.op, attributes_[at], operands);
      if (choice.activation) results = define(*choice.activation, choice.activation->defaults(), results);
      known.push_back(results.at(e.output));
    }
    for (std::size_t i = 0; i < q_.left.size(); ++i) {
      const Indices &a = known[q_.left[i]].shape, &b = known[q_.right[i]].shape;
      if (a.size() != b.size()) return false;
      for (std::size_t k = 0; k < a.size(); ++k)
        if (!unify(a[k], b[k])) return false;
    }
    return true;
  }

  Typing typing() const {
    Typing result;
    result.inputs.resize(q_.variables);
    for (std::uint32_t at = 0; at < q_.expressions.size(); ++at) {
      result.attributes.push_back(substitute(attributes_[at], current()));
      if (q_.expressions[at].kind == Kind::kVariable)
        result.inputs[q_.expressions[at].number] = {substitute(types_[at].shape, current()), false, {}, {}};
    }
    return result;
  }

  const Equation& q_;
  Forms& forms_;
  std::vector<TensorType> types_;
  std::vector<Attributes> attributes_;
  std::map<std::string, Index> originals_, solved_;
  bool numbers_, changed_ = false;
};

class Writer {
 public:
  Writer(const Equation& equation, Forms& forms) : q_(equation), forms_(forms) {}

  // As found: the symbols of the enumeration.
  Typing concrete() {
    Typing typing;
    typing.inputs.resize(q_.variables);
    for (const Expression& e : q_.expressions) {
      typing.attributes.push_back(attributes(e));
      if (e.kind == Kind::kVariable) typing.inputs[e.number] = {forms_.type(e.type).type.shape, false, {}, {}};
    }
    return typing;
  }
  // Inputs of any rank, if nothing speaks of sizes.
  std::optional<Typing> open() {
    Typing typing = concrete();
    typing.inputs.assign(q_.variables, {});
    return std::any_of(typing.attributes.begin(), typing.attributes.end(), has_symbols) ? std::nullopt : std::optional(typing);
  }

  Rule rule(const Typing& typing, bool reversed, const std::string& name) {
    Rule rule;
    rule.name = reversed ? name + "_reversed" : name;
    rule.description = to_string(q_, forms_.configuration());
    rule.origin = RuleOrigin::kGenerated;
    for (std::uint32_t v = 0; v < q_.variables; ++v) {
      rule.inputs.push_back({input_name(v), typing.inputs[v], {}, false});
    }
    rule.source = side(typing, reversed ? q_.right : q_.left);
    rule.target = side(typing, reversed ? q_.left : q_.right);
    rule.math = math();
    check_rule(rule);
    return rule;
  }

 private:
  const Form* form(const Expression& e) const {
    std::vector<TypeId> types;
    for (const std::uint32_t a : e.arguments)
      if (a != Expression::kNone) types.push_back(q_.expressions[a].type);
    for (const FormId f : forms_.find(e.number, types))
      if (forms_.form(f).variant == e.variant) return &forms_.form(f);
    return nullptr;
  }
  Attributes attributes(const Expression& e) const {
    if (e.kind == Kind::kConstant) return forms_.configuration().leaves[e.number].attributes;
    const Form* f = e.kind == Kind::kOperator ? form(e) : nullptr;
    return f ? f->attributes : Attributes{};
  }

  // A product with zero, or a value that one side does not need, is lost where
  // numbers are not finite.
  MathClass math() const {
    const std::vector<bool> left = q_.reachable(q_.left), right = q_.reachable(q_.right);
    for (std::size_t i = 0; i < q_.expressions.size(); ++i) {
      const Expression& e = q_.expressions[i];
      if (e.kind == Kind::kVariable && left[i] != right[i]) return MathClass::kNeedsFinite;
      if (e.kind == Kind::kConstant && left[i] != right[i]) {
        const Leaf& leaf = forms_.configuration().leaves[e.number];
        if (leaf.op->name() != "Fill") return MathClass::kNeedsFinite;
      }
    }
    return MathClass::kReassociates;
  }

  static std::vector<rewright::Expression> literals(const Operator& op, const Attributes& attributes) {
    std::vector<rewright::Expression> result;
    for (std::size_t i = 0; i < op.fields().size(); ++i)
      result.push_back(std::holds_alternative<DataType>(attributes[i]) && op.fields()[i].name == "type"
                           ? rewright::Expression::variable("T")
                           : rewright::Expression::literal(attributes[i]));
    return result;
  }

  Pattern side(const Typing& typing, const std::vector<std::uint32_t>& roots) const {
    Pattern pattern;
    std::map<std::uint32_t, PatternValue> values;
    std::map<std::tuple<std::uint32_t, std::uint32_t, std::array<std::uint32_t, 3>>, std::uint32_t> applications;
    const auto node = [&](const Operator& op, const Attributes& a, std::vector<PatternValue> inputs,
                          std::uint32_t outputs = 1) {
      pattern.nodes.push_back({&op, literals(op, a), std::move(inputs), outputs});
      return static_cast<std::uint32_t>(pattern.nodes.size() - 1);
    };
    const auto value = [&](auto&& self, std::uint32_t at) -> PatternValue {
      if (const auto known = values.find(at); known != values.end()) return known->second;
      const Expression& e = q_.expressions[at];
      if (e.kind == Kind::kVariable) return PatternValue::input(e.number);
      if (e.kind == Kind::kConstant) {
        const Leaf& leaf = forms_.configuration().leaves[e.number];
        PatternValue result = PatternValue::node(node(*leaf.op, typing.attributes[at], {}));
        if (leaf.divisor != 1) {
          Attributes divisor = leaf.op->defaults();
          divisor[leaf.op->field("value").value()] = Real(static_cast<double>(leaf.divisor));
          const PatternValue count = PatternValue::node(node(*leaf.op, divisor, {}));
          result = PatternValue::node(node(registry().get("Div"), {}, {result, count}));
        }
        return values[at] = result;
      }
      const auto known = applications.find({e.number, e.variant, e.arguments});
      if (known != applications.end()) return values[at] = PatternValue::node(known->second, e.output);
      std::vector<PatternValue> inputs;
      for (const std::uint32_t a : e.arguments)
        if (a != Expression::kNone) inputs.push_back(self(self, a));
      const Choice& choice = forms_.configuration().choices[e.number];
      std::uint32_t number =
          node(*choice.op, typing.attributes[at], std::move(inputs), static_cast<std::uint32_t>(form(e)->outputs.size()));
      if (choice.activation) number = node(*choice.activation, choice.activation->defaults(), {PatternValue::node(number)});
      applications[{e.number, e.variant, e.arguments}] = number;
      return values[at] = PatternValue::node(number, e.output);
    };
    for (const std::uint32_t r : roots) pattern.outputs.push_back(value(value, r));
    return canonical(pattern);
  }

  const Equation& q_;
  Forms& forms_;
};

bool is_source(const Equation& q, const std::vector<std::uint32_t>& from, const std::vector<std::uint32_t>& to) {
  const std::vector<bool> source = q.reachable(from), target = q.reachable(to);
  for (const std::uint32_t r : from)
    if (q.expressions[r].kind != Kind::kOperator) return false;
  for (std::size_t e = 0; e < q.expressions.size(); ++e)
    if (target[e] && !source[e] && q.expressions[e].kind == Kind::kVariable) return false;
  return true;
}

}  // namespace

std::vector<Rule> rules_of(const Equation& q, Forms& forms, const std::string& name, const WriterOptions& options) {
  const double left = cost(q, q.left, forms), right = cost(q, q.right, forms);
  const std::size_t many = q.operators(q.left), few = q.operators(q.right);
  const bool forward = left >= right || many >= few, backward = right >= left || few >= many;
  Writer writer(q, forms);
  std::vector<Rule> result;
  std::vector<Typing> typings;
  if (auto open = writer.open()) typings.push_back(std::move(*open));
  for (const bool numbers : {true, false})
    if (auto general = Generalizer(q, forms, numbers).run()) typings.push_back(std::move(*general));
  typings.push_back(writer.concrete());
  for (const bool reversed : {false, true}) {
    if (!(reversed ? backward : forward)) continue;
    if (!(reversed ? is_source(q, q.right, q.left) : is_source(q, q.left, q.right))) continue;
    for (const Typing& typing : typings) {
      try {
        Rule rule = writer.rule(typing, reversed, name);
        if (rule.source == rule.target)
          return {};  // an operator with its activation, as one operator and as
                      // two
        if (test_rule(rule, options.instances, options.seed).outcome != TestOutcome::kAgreed) continue;
        result.push_back(std::move(rule));
        break;
      } catch (const Error&) {  // cannot be said so
      }
    }
  }
  return result;
}

}  // namespace rewright::generator
