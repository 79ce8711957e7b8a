#include "tests/mutants/mutate.h"

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "base/error.h"
#include "rules/io.h"
#include "rules/isomorphism.h"

namespace rewright::testing {

namespace {

// Possible replacements for values, by sort.
struct Pool {
  std::set<std::string> indices, lists, reals, inputs;
  std::map<std::string, std::set<std::string>> texts;  // by operator and field
};

void collect(const Index& index, Pool& pool) {
  for_each_atom(index, [&](const Atom& atom) {
    if (atom.kind == Atom::Kind::kSymbol) pool.indices.insert(atom.name);
  });
}

void collect(const Expression& e, char sort, Pool& pool) {
  if (e.kind == Expression::Kind::kVariable && sort == 'l') pool.lists.insert(e.name);
  if (const auto* i = std::get_if<Index>(&e.value)) collect(*i, pool);
  if (const auto* l = std::get_if<Indices>(&e.value))
    for (const Index& i : *l) collect(i, pool);
  if (const auto* r = std::get_if<Real>(&e.value); r && !r->symbol.empty()) pool.reals.insert(r->symbol);
  if (e.kind == Expression::Kind::kCall)
    for (std::size_t i = 0; i < e.arguments.size(); ++i)
      collect(e.arguments[i], find_rule_function(e.name)->arguments[i], pool);
}

char sort_of(const AttributeValue& value) {
  if (std::holds_alternative<Index>(value)) return 'i';
  if (std::holds_alternative<Indices>(value)) return 'l';
  if (std::holds_alternative<Real>(value)) return 'r';
  return '-';
}

Pool pool_of(const Rule& rule, std::span<const Rule> rules) {
  Pool pool;
  for (const PatternInput& input : rule.inputs) {
    pool.inputs.insert(input.name);
    if (!input.shape.middle.empty()) pool.lists.insert(input.shape.middle);
    for (const Index& i : input.shape.front) collect(i, pool);
    for (const Index& i : input.shape.back) collect(i, pool);
  }
  for (const PatternNode& node : rule.source.nodes)
    for (std::size_t i = 0; i < node.attributes.size(); ++i)
      collect(node.attributes[i], sort_of(node.op->fields()[i].default_value), pool);
  for (const Rule& other : rules)
    for (const PatternNode& node : other.source.nodes)
      for (std::size_t i = 0; i < node.attributes.size(); ++i)
        if (const auto* text = std::get_if<std::string>(&node.attributes[i].value))
          pool.texts[node.op->name() + "." + node.op->fields()[i].name].insert(*text);
  return pool;
}

std::vector<Index> variants(const Index& index, const Pool& pool) {
  std::vector<Index> result = {index + 1, index - 1};
  std::set<std::string> symbols;
  for_each_atom(index, [&](const Atom& atom) {
    if (atom.kind == Atom::Kind::kSymbol) symbols.insert(atom.name);
  });
  for (const std::string& symbol : symbols)
    for (const std::string& other : pool.indices) {
      if (other == symbol) continue;
      result.push_back(substitute(index, [&](const Atom& atom) -> std::optional<Index> {
        return atom.kind == Atom::Kind::kSymbol && atom.name == symbol ? std::optional(Index::symbol(other)) : std::nullopt;
      }));
    }
  return result;
}

std::vector<Indices> variants(const Indices& list, const Pool& pool) {
  std::vector<Indices> result;
  for (std::size_t i = 0; i < list.size(); ++i) {
    for (const Index& variant : variants(list[i], pool)) {
      result.push_back(list);
      result.back()[i] = variant;
    }
    if (i + 1 < list.size() && !(list[i] == list[i + 1])) {
      result.push_back(list);
      std::swap(result.back()[i], result.back()[i + 1]);
    }
  }
  return result;
}

// `sort` as in RuleFunction::arguments, '-' for others; `field` gives the field of texts.
std::vector<Expression> variants(const Expression& e, char sort, const std::string& field, const Pool& pool) {
  std::vector<Expression> result;
  const auto others = [&](const std::set<std::string>& names) {
    for (const std::string& name : names)
      if (name != e.name) result.push_back(Expression::variable(name));
  };
  if (e.kind == Expression::Kind::kVariable) {
    if (sort == 'l' || pool.lists.count(e.name)) others(pool.lists);
    if (sort == 'x') others(pool.inputs);
    return result;
  }
  if (e.kind == Expression::Kind::kCall) {
    const RuleFunction& function = *find_rule_function(e.name);
    for (const RuleFunction& other : rule_functions())
      if (other.arguments == function.arguments && other.result == function.result && other.name != function.name)
        result.push_back(Expression::call(std::string(other.name), e.arguments));
    for (std::size_t i = 0; i < e.arguments.size(); ++i) {
      for (Expression& variant : variants(e.arguments[i], function.arguments[i], {}, pool)) {
        result.push_back(e);
        result.back().arguments[i] = std::move(variant);
      }
      if (i > 0 && function.arguments[i] == function.arguments[i - 1]) {
        result.push_back(e);
        std::swap(result.back().arguments[i], result.back().arguments[i - 1]);
      }
    }
    return result;
  }
  if (const auto* i = std::get_if<Index>(&e.value))
    for (Index& variant : variants(*i, pool)) result.push_back(Expression::literal(std::move(variant)));
  if (const auto* l = std::get_if<Indices>(&e.value))
    for (Indices& variant : variants(*l, pool)) result.push_back(Expression::literal(std::move(variant)));
  if (const auto* b = std::get_if<bool>(&e.value)) result.push_back(Expression::literal(!*b));
  if (const auto* r = std::get_if<Real>(&e.value)) {
    if (r->symbol.empty()) {
      for (const double value : {r->value + 1, -r->value, 2 * r->value}) result.push_back(Expression::literal(Real(value)));
    } else {
      for (const std::string& other : pool.reals)
        if (other != r->symbol) result.push_back(Expression::literal(Real::unknown(other)));
      result.push_back(Expression::call("negative", {e}));
    }
  }
  if (const auto* text = std::get_if<std::string>(&e.value))
    if (const auto known = pool.texts.find(field); known != pool.texts.end())
      for (const std::string& other : known->second)
        if (other != *text) result.push_back(Expression::literal(other));
  return result;
}

class Mutation {
 public:
  Mutation(const Rule& rule, std::span<const Rule> rules, int& ill_formed)
      : rule_(rule), pool_(pool_of(rule, rules)), ill_formed_(ill_formed) {}

  std::vector<Mutant> run() {
    for (const bool source : {true, false}) {
      attributes(source);
      edges(source);
    }
    quantities();
    shapes();
    conditions();
    predicates();
    return std::move(result_);
  }

 private:
  static Pattern& side(Rule& rule, bool source) { return source ? rule.source : rule.target; }

  // Keeps the edited rule if it is well-formed and different.
  void add(const std::string& kind, std::string what, const std::function<void(Rule&)>& edit) {
    Rule mutant = rule_;
    edit(mutant);
    std::replace(what.begin(), what.end(), '"', '\'');
    mutant.description = kind + ": " + what;
    mutant.proof = {};
    try {
      mutant.source = canonical(mutant.source);
      mutant.target = canonical(mutant.target);
      check_rule(mutant);
      // A name may mean something else where the text is read again.
      if (parse_algebra(to_algebra(mutant), "mutant").at(0).source != mutant.source)
        throw Error(ErrorCode::kBadInput, "the mutant is read as another rule");
    } catch (const Error&) {
      ++ill_formed_;
      return;
    }
    if (!same_rule(mutant, rule_)) result_.push_back({std::move(mutant), kind});
  }

  void attributes(bool source) {
    const Pattern& pattern = source ? rule_.source : rule_.target;
    for (std::size_t n = 0; n < pattern.nodes.size(); ++n) {
      const PatternNode& node = pattern.nodes[n];
      for (std::size_t i = 0; i < node.attributes.size(); ++i) {
        const Field& field = node.op->fields()[i];
        const bool axis = field.name == "axis" || field.name == "axes" || field.name == "perm";
        const bool number = node.op->is_fill() && field.name == "value";
        for (const Expression& variant :
             variants(node.attributes[i], sort_of(field.default_value), node.op->name() + "." + field.name, pool_))
          add(axis     ? "axis"
              : number ? "constant"
                       : "attribute",
              node.op->name() + " " + field.name + ", " + to_algebra(node.attributes[i]) + " -> " + to_algebra(variant),
              [&](Rule& rule) { side(rule, source).nodes[n].attributes[i] = variant; });
      }
    }
  }

  void edges(bool source) {
    const Pattern& pattern = source ? rule_.source : rule_.target;
    const auto replace = [&](const PatternValue& old, std::size_t before, const std::string& where,
                             const std::function<PatternValue&(Pattern&)>& place) {
      if (old.kind == PatternValue::Kind::kAbsent) return;
      std::vector<PatternValue> others;
      for (std::uint32_t i = 0; i < rule_.inputs.size(); ++i) others.push_back(PatternValue::input(i));
      for (std::uint32_t k = 0; k < before; ++k)
        for (std::uint32_t o = 0; o < pattern.nodes[k].outputs; ++o) others.push_back(PatternValue::node(k, o));
      for (const PatternValue& other : others)
        if (!(other == old))
          add("edge", where + ", " + describe(old) + " -> " + describe(other),
              [&](Rule& rule) { place(side(rule, source)) = other; });
    };
    for (std::size_t n = 0; n < pattern.nodes.size(); ++n) {
      const PatternNode& node = pattern.nodes[n];
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const std::string where = (source ? "source " : "target ") + node.op->name() + " input " + std::to_string(i);
        replace(node.inputs[i], n, where, [n, i](Pattern& p) -> PatternValue& { return p.nodes[n].inputs[i]; });
        if (i > 0)
          add("edge", where + " exchanged with the one before", [&](Rule& rule) {
            std::vector<PatternValue>& inputs = side(rule, source).nodes[n].inputs;
            std::swap(inputs[i], inputs[i - 1]);
          });
      }
    }
    for (std::size_t i = 0; i < pattern.outputs.size(); ++i)
      replace(pattern.outputs[i], pattern.nodes.size(), (source ? "source output " : "target output ") + std::to_string(i),
              [i](Pattern& p) -> PatternValue& { return p.outputs[i]; });
  }

  std::string describe(const PatternValue& v) const {
    if (v.kind == PatternValue::Kind::kInput) return rule_.inputs[v.number].name;
    return "operator " + std::to_string(v.number) + (v.output ? "." + std::to_string(v.output) : "");
  }

  void quantities() {
    Pool known = pool_;  // a quantity must not depend on later ones
    for (const Quantity& q : rule_.quantities) known.indices.erase(q.name);
    for (std::size_t i = 0; i < rule_.quantities.size(); known.indices.insert(rule_.quantities[i++].name))
      for (const Expression& variant : variants(rule_.quantities[i].value, '-', {}, known))
        add("constant",
            "let " + rule_.quantities[i].name + ", " + to_algebra(rule_.quantities[i].value) + " -> " + to_algebra(variant),
            [&](Rule& rule) { rule.quantities[i].value = variant; });
  }

  // Sizes stated in shapes are conditions too.
  void shapes() {
    for (std::size_t k = 0; k < rule_.inputs.size(); ++k) {
      const auto list = [&](Indices ShapePattern::*part) {
        for (const Indices& variant : variants(rule_.inputs[k].shape.*part, pool_))
          add("condition", rule_.inputs[k].name + ", " + to_string(rule_.inputs[k].shape.*part) + " -> " + to_string(variant),
              [&](Rule& rule) { rule.inputs[k].shape.*part = variant; });
        for (std::size_t i = 0; i < (rule_.inputs[k].shape.*part).size(); ++i)
          add("condition", rule_.inputs[k].name + ", any size for " + (rule_.inputs[k].shape.*part)[i].to_string(),
              [&](Rule& rule) { (rule.inputs[k].shape.*part)[i] = Index::symbol("any_size"); });
      };
      list(&ShapePattern::front);
      list(&ShapePattern::back);
      if (!rule_.inputs[k].shape.middle.empty())
        add("condition", rule_.inputs[k].name + ", any sizes for " + rule_.inputs[k].shape.middle,
            [&](Rule& rule) { rule.inputs[k].shape.middle = "any_sizes"; });
    }
  }

  void conditions() {
    for (std::size_t i = 0; i < rule_.conditions.size(); ++i) {
      const Condition& old = rule_.conditions[i];
      add("condition", "without " + old.to_string(),
          [&](Rule& rule) { rule.conditions.erase(rule.conditions.begin() + static_cast<std::ptrdiff_t>(i)); });
      std::vector<Condition> others;
      for (const auto relation : {Condition::Relation::kEqual, Condition::Relation::kNotEqual, Condition::Relation::kLess,
                                  Condition::Relation::kLessEqual})
        if (relation != old.relation) others.push_back({old.left, relation, old.right});
      for (const Index& left : variants(old.left, pool_)) others.push_back({left, old.relation, old.right});
      for (const Index& right : variants(old.right, pool_)) others.push_back({old.left, old.relation, right});
      for (const Condition& other : others)
        if (!other.decided())
          add("condition", old.to_string() + " -> " + other.to_string(), [&](Rule& rule) { rule.conditions[i] = other; });
    }
  }

  void predicates() {
    for (std::size_t i = 0; i < rule_.predicates.size(); ++i) {
      const Predicate& old = rule_.predicates[i];
      add("condition", "without " + to_algebra(old),
          [&](Rule& rule) { rule.predicates.erase(rule.predicates.begin() + static_cast<std::ptrdiff_t>(i)); });
      std::vector<Predicate> others;
      using Kind = Predicate::Kind;
      const std::map<Kind, Kind> opposite = {{Kind::kEqual, Kind::kNotEqual},
                                             {Kind::kNotEqual, Kind::kEqual},
                                             {Kind::kPositive, Kind::kNonNegative},
                                             {Kind::kNonNegative, Kind::kPositive}};
      if (const auto found = opposite.find(old.kind); found != opposite.end()) others.push_back({found->second, old.arguments});
      for (std::size_t a = 0; a < old.arguments.size(); ++a)
        for (Expression& variant : variants(old.arguments[a], '-', {}, pool_)) {
          others.push_back(old);
          others.back().arguments[a] = std::move(variant);
        }
      for (const Predicate& other : others)
        add("condition", to_algebra(old) + " -> " + to_algebra(other), [&](Rule& rule) { rule.predicates[i] = other; });
    }
  }

  const Rule& rule_;
  const Pool pool_;
  int& ill_formed_;
  std::vector<Mutant> result_;
};

}  // namespace

std::vector<Mutant> mutants_of(const Rule& rule, std::span<const Rule> rules, int& ill_formed) {
  return Mutation(rule, rules, ill_formed).run();
}

std::vector<Mutant> sample_mutants(std::span<const Rule> rules, int count, std::uint64_t seed, int& ill_formed) {
  std::mt19937_64 random(seed);
  std::map<std::string, std::vector<std::vector<Mutant>>> by_kind;  // one list for each rule
  for (const Rule& rule : rules) {
    std::map<std::string, std::vector<Mutant>> of_rule;
    for (Mutant& mutant : mutants_of(rule, rules, ill_formed)) of_rule[mutant.kind].push_back(std::move(mutant));
    for (auto& [kind, list] : of_rule) by_kind[kind].push_back(std::move(list));
  }
  std::vector<Mutant> result;
  while (static_cast<int>(result.size()) < count && !by_kind.empty()) {
    auto kind = std::next(by_kind.begin(), static_cast<std::ptrdiff_t>(random() % by_kind.size()));
    std::vector<Mutant>& list = kind->second[random() % kind->second.size()];
    const std::size_t at = random() % list.size();
    std::swap(list[at], list.back());
    result.push_back(std::move(list.back()));
    result.back().rule.name += "_m" + std::to_string(result.size());
    list.pop_back();
    std::erase_if(kind->second, [](const std::vector<Mutant>& l) { return l.empty(); });
    if (kind->second.empty()) by_kind.erase(kind);
  }
  return result;
}

}  // namespace rewright::testing
