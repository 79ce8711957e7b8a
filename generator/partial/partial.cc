#include "generator/partial/partial.h"

#include <algorithm>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "generator/enumeration/exactness.h"
#include "rules/instance.h"
#include "rules/rounding.h"
#include "rules/tester.h"

namespace rewright::generator {

namespace {

constexpr std::size_t kMostWrongCells = 8;
constexpr int kConditionInstances = 80, kInstances = 8, kInstancesAfterwards = 100, kAttempts = 300, kSameOperations = 6,
              kRounding = 32;

bool computes(const Form& form) { return form.program.operation_count() > 0 || form.activation.operation_count() > 0; }

// The members below a class or member that compute something when the graph is run.
void computing_below(const Enumeration& e, std::uint32_t number, std::vector<std::uint32_t>& result) {
  const Member& m = e.members()[number];
  const Form& form = e.forms().form(m.form);
  if (e.beforehand(m.result)) return;
  if (computes(form) && std::find(result.begin(), result.end(), number) == result.end()) result.push_back(number);
  for (std::size_t k = 0; k < form.operands.size(); ++k)
    if (const Class& c = e.classes()[m.operands[k]]; c.best != ~std::uint32_t{0}) computing_below(e, c.best, result);
}

bool of_leaves(const Enumeration& e, const Member& m) {
  const Form& form = e.forms().form(m.form);
  for (std::size_t k = 0; k < form.operands.size(); ++k)
    if (e.classes()[m.operands[k]].best != ~std::uint32_t{0}) return false;
  return true;
}

// An order of preference among targets.
struct Preference {
  double share, cost;
  std::uint32_t member;
  friend auto operator<=>(const Preference&, const Preference&) = default;
};

// Finds the most general form of an equivalence: sizes and attributes become variables one after the other, as far as the rule
// still holds on random instances, and then as far as it is proved.
class Generalization {
 public:
  Generalization(const Enumeration& enumeration, const PartialEquivalence& found, const WriterOptions& options)
      : enumeration_(enumeration), found_(found), options_(options), statements_(enumeration, found) {}

  // False if there is no correction.
  bool find_repairs() { return statements_.find_repairs(); }

  std::vector<Rule> run() {
    chain_.push_back(statements_.as_found());
    if (!holds(chain_.back())) return {};
    halves();
    kernels();
    fields();
    groups();  // last: proofs about any number of groups are the ones that are not found
    std::vector<Rule> result;
    for (bool first = true; result.empty(); first = false) {
      if (auto rule = proved(chain_.back())) result.push_back(std::move(*rule));
      if (!result.empty()) break;
      if (chain_.size() == 1) return result;
      chain_.resize(first ? chain_.size() - 1
                          : (chain_.size() + 1) / 2);  // few attempts: a proof that is not found takes longest
    }
    if (const auto without = without_optional(chain_.back()))
      if (auto rule = proved(*without)) result.push_back(std::move(*rule));
    return result;
  }

 private:
  const Operator& op_of(std::uint32_t member) const {
    const Forms& forms = enumeration_.forms();
    return *forms.configuration().choices[forms.form(enumeration_.members()[member].form).choice].op;
  }

  // The rule, with conditions under which the target is well-typed, as that an image has two rows. Only inequalities: that
  // sizes are equal is none of them. Few are needed: those that fail on random instances of the source where the others hold.
  std::optional<Rule> conditioned(const Statement& statement) const {
    std::vector<Condition> needs;
    std::optional<Rule> rule = statements_.rule(statement, statements_.repairs(), &needs);
    if (!rule) return rule;
    std::erase_if(needs, [](const Condition& c) { return c.relation == Condition::Relation::kEqual || c.decided(); });
    if (needs.empty()) return rule;
    std::vector<std::set<std::size_t>> failing;  // needs, of each instance
    InstanceSampler sampler(*rule, options_.seed);
    for (int n = 0; n < kConditionInstances; ++n) {
      const auto instance = sampler.sample(kAttempts);
      if (!instance) break;
      std::set<std::size_t> fails;
      for (std::size_t k = 0; k < needs.size(); ++k) {
        const Condition known{instance->bindings.evaluate(needs[k].left), needs[k].relation,
                              instance->bindings.evaluate(needs[k].right)};
        if (known.decided() == false) fails.insert(k);
      }
      if (!fails.empty()) failing.push_back(std::move(fails));
    }
    while (!failing.empty()) {
      std::vector<std::size_t> counts(needs.size());
      for (const std::set<std::size_t>& fails : failing)
        for (const std::size_t k : fails) ++counts[k];
      const auto most = static_cast<std::size_t>(std::max_element(counts.begin(), counts.end()) - counts.begin());
      rule->conditions.push_back(needs[most]);
      std::erase_if(failing, [&](const std::set<std::size_t>& fails) { return fails.count(most) != 0; });
    }
    return rule;
  }

  bool holds(const Statement& statement) const {
    const std::optional<Rule> rule = conditioned(statement);
    if (!rule) return false;
    InstanceSampler sampler(*rule, options_.seed);
    std::mt19937_64 random(options_.seed);
    for (int n = 0; n < kInstances; ++n) {
      const auto instance = sampler.sample(kAttempts);
      if (!instance || compare_sides(*rule, *instance, n, random)) return false;
    }
    return true;
  }

  std::optional<Rule> proved(const Statement& statement) const {
    std::optional<Rule> rule = conditioned(statement);
    if (rule && options_.prove) rule = options_.prove(*rule);
    if (!rule || test_rule(*rule, kInstancesAfterwards, options_.seed).outcome != TestOutcome::kAgreed) return std::nullopt;
    if (same_operations(*rule, kSameOperations, options_.seed)) rule->math = MathClass::kExact;
    for (const MathClass weaker : {MathClass::kReassociates, MathClass::kCancels, MathClass::kNeedsFinite})
      if (rule->math < weaker && test_rounding(*rule, rule->math, kRounding, options_.seed)) rule->math = weaker;
    return rule;
  }

  // Applies a step if what comes of it holds.
  bool take(Statement next) {
    if (!holds(next)) return false;
    chain_.push_back(std::move(next));
    return true;
  }

  // Sizes that need not be even.
  void halves() {
    for (const std::uint32_t leaf : statements_.inputs())
      for (std::size_t axis = 0; axis < chain_.back().shapes[leaf].size(); ++axis) {
        Statement next = chain_.back();
        Index& size = next.shapes[leaf][axis];
        const Polynomial* p = size.polynomial();
        if (!p || p->monomials.size() != 1 || p->monomials[0].factors.size() != 1 || p->monomials[0].coefficient == 1) continue;
        size = Index::atom(p->monomials[0].factors[0]);
        take(std::move(next));
      }
  }

  // A number 1 among the fields becomes a variable, and with it a size that two leaves share: the channels of a group.
  void groups() {
    const std::vector<Field>& fields = op_of(found_.source).fields();
    for (std::size_t f = 0; f < fields.size(); ++f) {
      if (!std::holds_alternative<Index>(fields[f].default_value)) continue;
      for (const std::uint32_t leaf : statements_.inputs())
        for (std::size_t axis = 0; axis < chain_.back().shapes[leaf].size(); ++axis) {
          Statement next = chain_.back();
          const Index was = next.shapes[leaf][axis];
          if (!shared(was, leaf)) continue;
          next.shapes[leaf][axis] = Index::symbol("D");
          if (vary(next, f, fields[f].name) && varies(next, fields[f].name) && take(std::move(next))) return;
        }
    }
  }

  // Has the variable other values than 1 in instances?
  bool varies(const Statement& statement, const std::string& name) const {
    const std::optional<Rule> rule = statements_.rule(statement);
    if (!rule) return false;
    InstanceSampler sampler(*rule, options_.seed);
    for (int n = 0; n < kConditionInstances; ++n) {
      const auto instance = sampler.sample(kAttempts);
      if (!instance) return false;
      if (instance->bindings.evaluate(Index::symbol(name)).constant() != 1) return true;
    }
    return false;
  }

  bool shared(const Index& size, std::uint32_t leaf) const {
    for (const std::uint32_t other : statements_.inputs())
      for (const Index& s : chain_.back().shapes[other])
        if (other != leaf && s == size) return true;
    return false;
  }

  void kernels() {
    for (const std::uint32_t leaf : statements_.inputs())
      for (std::size_t axis = 0; axis < chain_.back().shapes[leaf].size(); ++axis) {
        Statement next = chain_.back();
        if (!next.shapes[leaf][axis].is_constant()) continue;
        const std::int64_t was = next.shapes[leaf][axis].value();
        const Index size = Index::symbol(std::string("R") + std::to_string(axis));
        for (const Index& general : {size, size * 2 - was % 2}) {
          next.shapes[leaf][axis] = general;
          if (take(next)) break;
        }
      }
  }

  // A value of a list among the attributes of a member.
  struct Entry {
    std::uint32_t member;
    std::size_t field, entry;
  };
  using Change = std::vector<std::pair<Entry, Index>>;

  void fields() {
    const std::vector<Field>& fields = op_of(found_.source).fields();
    for (std::size_t f = 0; f < fields.size(); ++f) {
      const auto* list = std::get_if<Indices>(&chain_.back().attributes.at(found_.source)[f]);
      const std::size_t count = list ? list->size() : 0;
      for (std::size_t e = 0; e < count; ++e) {
        const Index variable = Index::symbol(fields[f].name + "_" + std::to_string(e));
        for (const Change& change : changes({found_.source, f, e}, variable)) {
          Statement next = chain_.back();
          for (const auto& [entry, value] : change)
            std::get<Indices>(next.attributes.at(entry.member)[entry.field])[entry.entry] = value;
          if (take(std::move(next))) break;
        }
      }
    }
  }

  // The ways in which an entry of the source, and others with it, may become a variable: in the member that computes, as it is,
  // or twice as far; and where a border is as wide as the source's pads.
  std::vector<Change> changes(const Entry& source, const Index& variable) const {
    const Statement& statement = chain_.back();
    const auto at = [&](const Entry& e) {
      return std::get<Indices>(statement.attributes.at(e.member)[e.field])[e.entry].constant();
    };
    std::vector<Change> result;
    const auto s = at(source);
    if (!s) return result;
    if (&op_of(found_.source) == &op_of(found_.computing)) {
      const Entry target{found_.computing, source.field, source.entry};
      if (const auto t = at(target)) {
        if (const auto both = related(*s, *t, variable)) result.push_back({{source, both->first}, {target, both->second}});
        result.push_back({{source, variable * 2 + (*s - 2 * *t)}, {target, variable}});
      }
    }
    for (const auto& [member, attributes] : statement.attributes) {
      if (member == found_.source || member == found_.computing) continue;
      for (std::size_t f = 0; f < attributes.size(); ++f) {
        const auto* list = std::get_if<Indices>(&attributes[f]);
        for (std::size_t e = 0; list && e < list->size(); ++e) {
          const auto t = (*list)[e].constant();
          if (!t || *t == 0 || (*t != *s && *t != -*s)) continue;
          for (const Index& general : {variable, variable * 2 + *s % 2})
            result.push_back({{source, general}, {{member, f, e}, general * (*t / *s)}});
        }
      }
    }
    return result;
  }

  // Values of the source and of the target in a variable, which are s and t for one of its values. A multiple stays one.
  static std::optional<std::pair<Index, Index>> related(std::int64_t s, std::int64_t t, const Index& variable) {
    if (s == t) return std::pair(variable, variable);
    if (t > 0 && s % t == 0) return std::pair(variable * (s / t), variable);
    if (s > 0 && t % s == 0) return std::pair(variable, variable * (t / s));
    return std::nullopt;
  }

  // A number among the fields becomes a variable in the source and in the member that computes. False if it cannot.
  bool vary(Statement& statement, std::size_t field, const std::string& name) const {
    if (&op_of(found_.source) != &op_of(found_.computing)) return false;
    Index *source = std::get_if<Index>(&statement.attributes.at(found_.source)[field]),
          *target = std::get_if<Index>(&statement.attributes.at(found_.computing)[field]);
    if (!source || !target || !source->is_constant() || !target->is_constant()) return false;
    const auto both = related(source->value(), target->value(), Index::symbol(name));
    if (both) std::tie(*source, *target) = *both;
    return both.has_value();
  }

  // Without the last operand, if the operator can do without it.
  std::optional<Statement> without_optional(const Statement& statement) const {
    const Member& m = enumeration_.members()[found_.source];
    const Form& form = enumeration_.forms().form(m.form);
    const std::size_t count = form.operands.size();
    if (static_cast<int>(count) <= op_of(found_.source).min_inputs()) return std::nullopt;
    Statement result = statement;
    result.absent.insert(enumeration_.classes()[m.operands[count - 1]].leaf);
    return result;
  }

  const Enumeration& enumeration_;
  const PartialEquivalence& found_;
  const WriterOptions& options_;
  PartialStatements statements_;
  std::vector<Statement> chain_;
};

// "Conv 3 stride 1 same bias by Fold 2 into 0, Conv 3 stride 1 same bias, Fold 0 into 2, but for 25%".
std::string description(const Enumeration& e, const PartialEquivalence& found) {
  const auto name = [&](std::uint32_t member) {
    return e.forms().configuration().choices[e.forms().form(e.members()[member].form).choice].name;
  };
  std::string steps;
  const auto visit = [&](const auto& self, std::uint32_t number) -> void {
    const Member& m = e.members()[number];
    for (std::size_t k = 0; k < e.forms().form(m.form).operands.size(); ++k)
      if (const Class& c = e.classes()[m.operands[k]]; c.best != ~std::uint32_t{0}) self(self, c.best);
    steps += (steps.empty() ? "" : ", ") + name(number);
  };
  visit(visit, found.target);
  return name(found.source) + " by " + steps + (found.regions.everywhere() ? "" : ", and where that is wrong anew");
}

}  // namespace

std::vector<PartialEquivalence> partial_equivalences(const Enumeration& e) {
  const std::vector<Class>& classes = e.classes();
  const std::vector<Member>& members = e.members();
  // By type and support: a value that computes the source alone on what others are laid out for is looked up: members by type
  // and support.
  std::map<std::pair<TypeId, std::uint32_t>, std::vector<std::pair<std::uint32_t, std::uint32_t>>> targets;
  for (std::uint32_t n = 0; n < members.size(); ++n) {
    const Class& c = classes[members[n].result];
    std::vector<std::uint32_t> computing;
    computing_below(e, n, computing);
    if (computing.size() == 1 && !c.zero && members[n].output == 0)
      targets[{c.fingerprint.type, c.support}].emplace_back(n, computing[0]);
  }
  std::vector<PartialEquivalence> result;
  for (ClassId id = 0; id < classes.size(); ++id) {
    const Class& source = classes[id];
    if (source.best == ~std::uint32_t{0} || source.zero || !of_leaves(e, members[source.best]) ||
        !computes(e.forms().form(members[source.best].form)))
      continue;
    const KnownType& type = e.forms().type(source.fingerprint.type);
    std::map<FormId, std::pair<Preference, PartialEquivalence>> best;  // by the form that computes
    for (const auto& [target, computing] : targets[{source.fingerprint.type, source.support}]) {
      const ClassId other = members[target].result;
      const FormId form = members[computing].form;
      if (form == members[source.best].form || (other != id && target != classes[other].best)) continue;
      std::optional<Regions> where = regions(type, e.elements(id), e.elements(other));
      if (!where || std::count(where->wrong.begin(), where->wrong.end(), true) > static_cast<std::ptrdiff_t>(kMostWrongCells))
        continue;
      const Preference preference{where->share, e.cost_of({members[target].form, members[target].operands}), target};
      const auto known = best.find(form);
      if (known != best.end() && known->second.first < preference) continue;
      best.insert_or_assign(form, std::pair(preference, PartialEquivalence{source.best, target, computing, std::move(*where)}));
    }
    for (auto& [form, chosen] : best) result.push_back(std::move(chosen.second));
  }
  return result;
}

PartialRules partial_rules(const Enumeration& enumeration, const std::vector<PartialEquivalence>& found,
                           const PartialOptions& options) {
  struct Outcome {
    bool tried = false, corrected = false;
    std::vector<Rule> rules;
  };
  std::vector<Outcome> outcomes(found.size());
  parallel(options.threads, found.size(), 1, [&](std::size_t begin, std::size_t end, std::size_t) {
    for (std::size_t i = begin; i < end && !options.stop.stop_requested(); ++i) {
      outcomes[i].tried = true;
      try {
        Generalization generalization(enumeration, found[i], options.writer);
        outcomes[i].corrected = generalization.find_repairs();
        if (outcomes[i].corrected) outcomes[i].rules = generalization.run();
      } catch (const Error&) {  // a size or an index of an instance is beyond 64 bits
      }
    }
  });
  PartialRules result;
  std::map<std::string, std::size_t> known;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (outcomes[i].tried && !outcomes[i].corrected) ++result.pruned["no correction"];
    if (outcomes[i].corrected && outcomes[i].rules.empty()) ++result.pruned["not general"];
    for (Rule& rule : outcomes[i].rules) {
      if (!known.try_emplace(contents(rule), result.rules.size()).second) {
        ++result.pruned["renaming"];
        continue;
      }
      std::string number = std::to_string(result.rules.size() + 1);
      number.insert(0, 3 - std::min<std::size_t>(3, number.size()), '0');
      rule.name = "partial_" + number;
      rule.description = description(enumeration, found[i]);
      result.rules.push_back(std::move(rule));
    }
    if (options.progress) options.progress(static_cast<double>(i + 1) / static_cast<double>(found.size()), result.rules.size());
  }
  return result;
}

}  // namespace rewright::generator
