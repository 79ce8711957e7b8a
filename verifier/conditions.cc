#include "verifier/conditions.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "rules/io.h"
#include "verifier/cases.h"

namespace rewright::proof {

namespace {

using Symbols = std::set<std::string>;

Symbols symbols_of(const Index& index) {
  Symbols symbols;
  for_each_atom(index, [&](const Atom& a) {
    if (a.kind == Atom::Kind::kSymbol) symbols.insert(a.name);
  });
  return symbols;
}

bool divides(const Condition& c) {
  bool found = false;
  for (const Index& side : {c.left, c.right})
    for_each_atom(side, [&](const Atom& a) { found |= a.kind == Atom::Kind::kFloorDiv; });
  return found;
}

Index with_factors(const Monomial& m, const std::vector<AtomPointer>& left_out, std::int64_t coefficient) {
  Index result = coefficient;
  std::vector<AtomPointer> out = left_out;
  for (const AtomPointer& f : m.factors) {
    const auto found = std::find_if(out.begin(), out.end(), [&](const AtomPointer& o) { return compare(*o, *f) == 0; });
    if (found == out.end())
      result *= Index::atom(f);
    else
      out.erase(found);
  }
  return result;
}

// Simplifies an equation: cancels common factors (at least 1), common terms, and signs.
Condition simplified(const Condition& c, const Guards& hypotheses, Solver& solver) {
  if (c.relation != Condition::Relation::kEqual) return c;
  const Index difference = c.left - c.right;
  if (difference.is_constant()) return c;
  std::vector<AtomPointer> shared;
  if (difference.constant_term() == 0)
    for (const AtomPointer& f : difference.polynomial()->monomials[0].factors) {
      const auto has = [&](const Monomial& m) {
        return std::any_of(m.factors.begin(), m.factors.end(), [&](const AtomPointer& o) { return compare(*o, *f) == 0; });
      };
      const auto& monomials = difference.polynomial()->monomials;
      if (shared.empty() && std::all_of(monomials.begin(), monomials.end(), has) &&
          solver.proves_quickly(hypotheses, at_least(Index::atom(f), 1)))
        shared.push_back(f);
    }
  Index left = std::max<std::int64_t>(difference.constant_term(), 0);
  Index right = std::max<std::int64_t>(-difference.constant_term(), 0);
  for (const Monomial& m : difference.polynomial()->monomials)
    (m.coefficient > 0 ? left : right) += with_factors(m, shared, std::abs(m.coefficient));
  return left.is_constant() ? equal(right, left) : equal(left, right);
}

// Examines the target in every case, and adds conditions until it is well-typed.
class NeedsFinder {
 public:
  NeedsFinder(const Rule& rule, const ProofLimits& limits, Solver& solver) : rule_(rule), limits_(limits), solver_(solver) {}

  TargetNeeds run() {
    try {
      if (!pass(true)) return std::move(result_);
      drop_implied();
      result_.found = true;
    } catch (const Error& e) {
      result_.obstacle = e.what();
    }
    return std::move(result_);
  }

 private:
  // Does every case have what it needs, after adding conditions if `may_add`?
  bool pass(bool may_add) {
    CaseEnumerator cases(rule_, solver_);
    const std::size_t largest = cases.largest_rank(limits_.maximum_rank);
    bool good = true;
    std::size_t seen = 0;
    for (std::size_t rank = 0; rank <= largest; ++rank)
      cases.for_each(rank, [&](const SymbolicCase& c) {
        if (++seen > limits_.maximum_cases) return false;
        good &= look_at(c, may_add);
        return good || (may_add && !result_.ever_typed);
      });
    return good;
  }

  bool look_at(const SymbolicCase& c, bool may_add) {
    Guards known = c.hypotheses;
    for (const RuleCondition& added : result_.conditions) {
      const auto guards = added.guards(c.bindings);
      if (!guards) return true;  // the rule is not applied if a condition is undecided
      known.insert(known.end(), guards->begin(), guards->end());
    }
    if (solver_.contradictory(known) == Answer::kProved) return true;
    result_.any_case = true;
    SideConditions needs;
    DefinedSide target;
    try {
      target = define_side(rule_, rule_.target, c.inputs, c.bindings, false, needs);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kBadInput) throw;
      return refused(e.what());
    }
    result_.ever_typed = true;
    for (const Condition& need : needs.typing)
      if (!supply(c, need, known, may_add)) return false;
    if (solver_.contradictory(known) == Answer::kProved) return refused("sizes of the target cannot agree");
    for (std::size_t k = 0; k < rule_.source.outputs.size(); ++k) {
      const TensorType &a = type_of(c.source, rule_.source.outputs[k]), &b = type_of(target, rule_.target.outputs[k]);
      if (a.type != b.type || a.rank() != b.rank())
        return refused("output " + std::to_string(k) + " is " + to_string(a) + " and " + to_string(b));
      for (std::size_t n = 0; n < a.rank(); ++n)
        if (!supply(c, equal(a.shape[n], b.shape[n]), known, may_add)) return false;
    }
    if (solver_.contradictory(known) == Answer::kProved) return refused("shapes of the outputs cannot be equal");
    return true;
  }

  bool refused(const std::string& why) {
    if (result_.obstacle.empty()) result_.obstacle = why;
    return false;
  }

  // Adds the first candidate condition that implies what is needed here, unless existing ones do.
  bool supply(const SymbolicCase& c, const Condition& need, Guards& known, bool may_add) {
    const Guard goal = guard(need);
    if (goal.decided() == true || solver_.proves(known, goal)) return true;
    if (!may_add) return false;
    for (const std::vector<RuleCondition>& candidate : candidates(c, need, known)) {
      Guards more = known;
      bool decided = true;
      for (const RuleCondition& part : candidate) {
        const auto guards = part.guards(c.bindings);
        decided &= guards.has_value();
        if (guards) more.insert(more.end(), guards->begin(), guards->end());
      }
      if (!decided || solver_.contradictory(more) == Answer::kProved || !solver_.proves(more, goal)) continue;
      result_.conditions.insert(result_.conditions.end(), candidate.begin(), candidate.end());
      known = std::move(more);
      return true;
    }
    return refused("the target needs " + need.to_string() + " (" + c.to_string() + ")");
  }

  // Conditions that might suffice, the weakest first: single conditions, then pairs.
  std::vector<std::vector<RuleCondition>> candidates(const SymbolicCase& c, const Condition& need, const Guards& known) {
    Symbols mentioned = symbols_of(need.left);
    mentioned.merge(symbols_of(need.right));
    bool expressible = true;
    for (const std::string& s : mentioned) {
      const auto value = c.bindings.values().find(s);
      const auto* index = value == c.bindings.values().end() ? nullptr : std::get_if<Index>(&value->second);
      expressible &= index && *index == Index::symbol(s);
    }
    // A size of 1 that might broadcast is equal to another one, preferably one that it meets in the source.
    std::vector<std::pair<std::size_t, RuleCondition>> pairs;
    for (const auto& [one, from] : sizes())
      for (const auto& [other, to] : sizes())
        if (std::get<Index>(c.bindings.values().at(one)) == Index(1) && mentioned.count(other))
          pairs.push_back({meeting(from, to), {equal(Index::symbol(one), Index::symbol(other)), {}}});
    std::stable_sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::vector<RuleCondition>> result;
    for (auto& [node, pair] : pairs) result.push_back({std::move(pair)});
    const std::size_t singles = result.size();
    for (std::size_t i = 0; i < singles; ++i)
      for (std::size_t j = i + 1; j < singles; ++j) result.push_back({result[i][0], result[j][0]});
    // An equation of quotients says little about a rule; a condition that implies it should be among the candidates.
    if (expressible && !(need.relation == Condition::Relation::kEqual && divides(need)))
      result.push_back({{simplified(need, known, solver_), {}}});
    std::vector<RuleCondition> lists;
    add_lists(c, mentioned, lists);
    for (RuleCondition& list : lists) result.push_back({std::move(list)});
    return result;
  }

  // Adds conditions on lists and shapes related to the mentioned symbols: none negative, equal, all positive.
  void add_lists(const SymbolicCase& c, const Symbols& mentioned, std::vector<RuleCondition>& result) const {
    std::vector<Expression> lists;
    const auto concerned = [&](const Expression& e) {
      const auto value = c.bindings.try_evaluate(e);
      const auto* list = value ? std::get_if<Indices>(&*value) : nullptr;
      return list && std::any_of(list->begin(), list->end(), [&](const Index& i) {
               const Symbols in = symbols_of(i);
               return std::any_of(in.begin(), in.end(), [&](const std::string& s) { return mentioned.count(s) > 0; });
             });
    };
    for (const auto& [name, value] : c.bindings.values())
      if (std::holds_alternative<Indices>(value)) lists.push_back(Expression::variable(name));
    for (const PatternInput& input : rule_.inputs)
      if (input.shape.open) lists.push_back(Expression::call("shape", {Expression::variable(input.name)}));
    const auto add = [&](Predicate::Kind kind, std::vector<Expression> arguments) {
      result.push_back({Predicate{kind, std::move(arguments)}, {}});
    };
    for (const Expression& list : lists)
      if (concerned(list)) add(Predicate::Kind::kNonNegative, {list});
    for (std::size_t i = 0; i < lists.size(); ++i)
      for (std::size_t j = i + 1; j < lists.size(); ++j)
        if (concerned(lists[i]) || concerned(lists[j])) add(Predicate::Kind::kEqual, {lists[i], lists[j]});
    for (const Expression& list : lists)
      if (concerned(list)) add(Predicate::Kind::kPositive, {list});
  }

  // Index variables that are sizes, each with an input.
  std::map<std::string, std::size_t> sizes() const {
    std::map<std::string, std::size_t> names;
    for (std::size_t i = 0; i < rule_.inputs.size(); ++i)
      for (const Indices& part : {rule_.inputs[i].shape.front, rule_.inputs[i].shape.back})
        for (const Index& size : part)
          if (const Atom* atom = size.as_atom(); atom && atom->kind == Atom::Kind::kSymbol) names.try_emplace(atom->name, i);
    return names;
  }

  // The first node of the source that depends on both inputs.
  std::size_t meeting(std::size_t a, std::size_t b) const {
    std::vector<std::set<std::size_t>> inputs;
    for (const PatternNode& node : rule_.source.nodes) {
      inputs.emplace_back();
      for (const PatternValue& v : node.inputs) {
        if (v.kind == PatternValue::Kind::kInput) inputs.back().insert(v.number);
        if (v.kind == PatternValue::Kind::kNode) inputs.back().insert(inputs[v.number].begin(), inputs[v.number].end());
      }
      if (inputs.back().count(a) && inputs.back().count(b)) return inputs.size() - 1;
    }
    return inputs.size();
  }

  // A later condition may imply an earlier one.
  void drop_implied() {
    for (std::size_t i = 0; result_.conditions.size() > 1 && i < result_.conditions.size();) {
      const RuleCondition dropped = result_.conditions[i];
      const auto place = result_.conditions.begin() + static_cast<std::ptrdiff_t>(i);
      result_.conditions.erase(place);
      if (pass(false)) continue;
      result_.conditions.insert(result_.conditions.begin() + static_cast<std::ptrdiff_t>(i), dropped);
      ++i;
    }
    result_.obstacle.clear();
  }

  const Rule& rule_;
  const ProofLimits& limits_;
  Solver& solver_;
  TargetNeeds result_;
};

}  // namespace

std::string RuleCondition::to_string() const {
  std::string text;
  if (const auto* c = std::get_if<Condition>(&statement))
    text = c->to_string();
  else
    text = to_algebra(std::get<Predicate>(statement));
  if (!quantity) return text;
  if (const std::size_t at = text.find(quantity->name); at != std::string::npos)
    text.replace(at, quantity->name.size(), to_algebra(quantity->value));
  return text;
}

void RuleCondition::add_to(Rule& rule) const {
  if (quantity && std::find(rule.quantities.begin(), rule.quantities.end(), *quantity) == rule.quantities.end())
    rule.quantities.push_back(*quantity);
  if (const auto* c = std::get_if<Condition>(&statement))
    rule.conditions.push_back(*c);
  else
    rule.predicates.push_back(std::get<Predicate>(statement));
}

std::optional<Guards> RuleCondition::guards(const Bindings& outer) const {
  Bindings bindings = outer;
  if (quantity) {
    const auto value = bindings.try_evaluate(quantity->value);
    if (!value || !bindings.bind(quantity->name, *value)) return std::nullopt;
  }
  if (const auto* c = std::get_if<Condition>(&statement)) {
    const auto left = bindings.try_evaluate(c->left), right = bindings.try_evaluate(c->right);
    if (!left || !right) return std::nullopt;
    return Guards{guard({*left, c->relation, *right})};
  }
  const Predicate& p = std::get<Predicate>(statement);
  std::vector<AttributeValue> values;
  for (const Expression& e : p.arguments) {
    auto value = bindings.try_evaluate(e);
    if (!value) return std::nullopt;
    values.push_back(std::move(*value));
  }
  if (const auto* real = std::get_if<Real>(&values[0])) {
    if (!real->symbol.empty()) return std::nullopt;
    const bool holds = p.kind == Predicate::Kind::kEqual      ? values[0] == values[1]
                       : p.kind == Predicate::Kind::kPositive ? real->value > 0
                                                              : real->value >= 0;
    return Guards{non_negative(holds ? 0 : -1)};
  }
  std::vector<Indices> lists;
  for (const AttributeValue& value : values) {
    if (!std::holds_alternative<Indices>(value)) return std::nullopt;
    lists.push_back(std::get<Indices>(value));
  }
  Guards result;
  if (p.kind == Predicate::Kind::kEqual) {
    if (lists[0].size() != lists[1].size()) return Guards{non_negative(-1)};
    for (std::size_t i = 0; i < lists[0].size(); ++i) result.push_back(zero(lists[0][i] - lists[1][i]));
  } else {
    for (const Index& i : lists[0]) result.push_back(at_least(i, p.kind == Predicate::Kind::kPositive ? 1 : 0));
  }
  return result;
}

TargetNeeds find_needs(const Rule& rule, const ProofLimits& limits, Solver& solver) {
  return NeedsFinder(rule, limits, solver).run();
}

std::string why_empty(const Rule& rule, const ProofLimits& limits, Solver& solver) {
  Rule free = rule;
  free.conditions.clear();
  free.predicates.clear();
  CaseEnumerator cases(free, solver);
  bool typed = false;
  for (std::size_t rank = 0; rank <= cases.largest_rank(limits.maximum_rank) && !typed; ++rank)
    cases.for_each(rank, [&](const SymbolicCase&) {
      typed = true;
      return false;
    });
  return typed ? "its conditions contradict each other" : "the source is ill-typed for all sizes";
}

}  // namespace rewright::proof
