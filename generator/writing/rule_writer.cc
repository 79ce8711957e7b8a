#include "generator/writing/rule_writer.h"

#include <algorithm>
#include <optional>
#include <random>

#include "generator/enumeration/exactness.h"
#include "generator/writing/generalization.h"
#include "rules/instance.h"
#include "rules/io.h"
#include "rules/rounding.h"
#include "rules/tester.h"

namespace rewright::generator {

namespace {

using Kind = Expression::Kind;

constexpr int kExactInstances = 6;
constexpr int kInstancesBeforeProof = 8;
constexpr int kInstancesAfterProof = 100;  // proofs test only roughly where the sides are defined
constexpr int kSamplingAttempts = 300;
constexpr std::size_t kProofAttempts = 3;  // of one family of shapes
constexpr int kRoundingInstances = 32;

// True if a product with zero, or a value that one side does not need, is dropped: this changes results that are not finite.
bool needs_finite(const Equation& q, const Configuration& configuration) {
  const std::vector<bool> left = q.reachable(q.left), right = q.reachable(q.right);
  for (std::size_t i = 0; i < q.expressions.size(); ++i) {
    const Expression& e = q.expressions[i];
    if (left[i] == right[i]) continue;
    if (e.kind == Kind::kVariable) return true;
    if (e.kind == Kind::kConstant && !configuration.leaves[e.number].op->is_fill()) return true;
  }
  const auto parameters = [&](const std::vector<std::uint32_t>& side) {
    std::set<std::uint32_t> variables = parameters_of(q, side, configuration);
    std::erase_if(variables, [&](std::uint32_t leaf) { return configuration.leaves[leaf].constant(); });
    return variables;
  };
  return parameters(q.left) != parameters(q.right);
}

class SideWriter {
 public:
  SideWriter(const Equation& equation, Forms& forms, const Typing& typing) : q_(equation), forms_(forms), typing_(typing) {}

  Pattern write(const std::vector<std::uint32_t>& roots) {
    for (const std::uint32_t r : roots) pattern_.outputs.push_back(value(r));
    return canonical(pattern_);
  }

 private:
  std::uint32_t node(const Operator& op, std::vector<rules::Expression> attributes, std::vector<PatternValue> inputs,
                     std::uint32_t outputs = 1) {
    pattern_.nodes.push_back({&op, std::move(attributes), std::move(inputs), outputs});
    return static_cast<std::uint32_t>(pattern_.nodes.size() - 1);
  }
  static std::vector<rules::Expression> literals(const Attributes& attributes) {
    std::vector<rules::Expression> result;
    for (const AttributeValue& value : attributes) result.push_back(rules::Expression::literal(value));
    return result;
  }

  PatternValue value(std::uint32_t at) {
    if (const auto known = values_.find(at); known != values_.end()) return known->second;
    const Expression& e = q_.expressions[at];
    if (e.kind == Kind::kVariable) return PatternValue::input(e.number);
    return values_[at] = e.kind == Kind::kConstant ? constant(at) : application(at);
  }

  PatternValue constant(std::uint32_t at) {
    const Leaf& leaf = forms_.configuration().leaves[q_.expressions[at].number];
    const PatternValue result = PatternValue::node(node(*leaf.op, typing_.attributes[at], {}));
    if (leaf.divisor == 1) return result;
    std::vector<rules::Expression> divisor = literals(leaf.op->defaults());
    for (std::size_t f = 0; f < divisor.size(); ++f)
      if (leaf.op->fields()[f].name == "type") divisor[f] = rules::Expression::variable("T");
    divisor[leaf.op->field("value").value()] = rules::Expression::literal(Real(static_cast<double>(leaf.divisor)));
    const PatternValue count = PatternValue::node(node(*leaf.op, std::move(divisor), {}));
    return PatternValue::node(node(registry().get("Div"), {}, {result, count}));
  }

  // Variables that are parameters are inputs too, after the others.
  PatternValue parameter(std::uint32_t leaf) {
    if (const auto at = typing_.parameters.find(leaf); at != typing_.parameters.end())
      return PatternValue::input(q_.variables + static_cast<std::uint32_t>(std::distance(typing_.parameters.begin(), at)));
    const auto [at, fresh] = constants_.try_emplace(leaf);
    if (fresh)
      at->second = PatternValue::node(node(*forms_.configuration().leaves[leaf].op, typing_.constant_parameters.at(leaf), {}));
    return at->second;
  }

  PatternValue application(std::uint32_t at) {
    const Expression& e = q_.expressions[at];
    const auto known = applications_.find({e.number, e.variant, e.arguments});
    if (known != applications_.end()) return PatternValue::node(known->second, e.output);
    std::vector<PatternValue> inputs;
    for (const std::uint32_t a : e.arguments)
      if (a != Expression::kNone) inputs.push_back(value(a));
    const Choice& choice = forms_.configuration().choices[e.number];
    for (const std::uint32_t leaf : choice.parameters) inputs.push_back(parameter(leaf));
    const Form* form = form_of(q_, e, forms_);
    std::uint32_t number =
        node(*choice.op, typing_.attributes[at], std::move(inputs), static_cast<std::uint32_t>(form->outputs.size()));
    if (choice.activation)
      number = node(*choice.activation, literals(choice.activation->defaults()), {PatternValue::node(number)});
    for (std::size_t s = 0; s < form->further.size(); ++s) {
      const std::size_t results = form->further_offsets[s].size();
      pattern_.nodes[number].outputs = static_cast<std::uint32_t>(results);
      std::vector<PatternValue> before;
      for (std::uint32_t o = 0; o < results; ++o) before.push_back(PatternValue::node(number, o));
      number = node(*form->further[s].op, literals(form->further[s].attributes), std::move(before));
    }
    applications_[{e.number, e.variant, e.arguments}] = number;
    return PatternValue::node(number, e.output);
  }

  const Equation& q_;
  Forms& forms_;
  const Typing& typing_;
  Pattern pattern_;
  std::map<std::uint32_t, PatternValue> values_, constants_;  // constants_: by parameter leaf
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::array<std::uint32_t, 3>>, std::uint32_t> applications_;
};

bool is_source(const Equation& q, const std::vector<std::uint32_t>& from, const std::vector<std::uint32_t>& to) {
  const std::vector<bool> source = q.reachable(from), target = q.reachable(to);
  for (const std::uint32_t r : from)
    if (q.expressions[r].kind != Kind::kOperator) return false;
  for (std::size_t e = 0; e < q.expressions.size(); ++e)
    if (target[e] && !source[e] && q.expressions[e].kind == Kind::kVariable) return false;
  return true;
}

// Inputs of operators on weights that only the target has. If they are constants, these operators are computed once and cost
// nothing.
std::set<std::uint32_t> prepared(const Equation& q, const std::vector<std::uint32_t>& from,
                                 const std::vector<std::uint32_t>& to, const Typing& typing,
                                 const Configuration& configuration) {
  std::set<std::uint32_t> inputs;
  if (configuration.weight_operators == 0) return inputs;
  const std::vector<bool> source = q.reachable(from), target = q.reachable(to), weights = q.of_weights();
  for (std::uint32_t at = 0; at < q.expressions.size(); ++at) {
    if (source[at] || !target[at] || !weights[at] || q.expressions[at].kind != Kind::kOperator) continue;
    const std::vector<bool> below = q.reachable({at});
    for (std::size_t i = 0; i < below.size(); ++i)
      if (below[i] && q.expressions[i].kind == Kind::kVariable) inputs.insert(q.expressions[i].number);
    for (const std::uint32_t leaf : parameters_of(q, {at}, configuration))
      if (const auto known = typing.parameters.find(leaf); known != typing.parameters.end())
        inputs.insert(q.variables + static_cast<std::uint32_t>(std::distance(typing.parameters.begin(), known)));
  }
  return inputs;
}

std::string numbered(const std::string& name, std::size_t before) {
  return before == 0 ? name : name + "_" + std::to_string(before + 1);
}

}  // namespace

std::string contents(Rule rule) {
  rule.name = "rule";
  rule.description.clear();
  return to_algebra(rule);
}

std::optional<Rule> RuleWriter::rule(const Equation& q, const Typing& typing, bool reversed, const std::string& name) const {
  Rule rule;
  rule.name = name;
  rule.description = to_string(q, forms_.configuration());
  rule.origin = RuleOrigin::kGenerated;
  const TypePattern type{typing.any_type ? TypePattern::Kind::kAny : TypePattern::Kind::kReal, DataType::kUndefined, "T"};
  for (std::uint32_t v = 0; v < q.variables; ++v) rule.inputs.push_back({input_name(v), typing.inputs[v], type, false});
  for (const auto& [leaf, shape] : typing.parameters)
    rule.inputs.push_back({forms_.configuration().leaves[leaf].name, shape, type, false});
  for (const std::uint32_t input :
       prepared(q, reversed ? q.right : q.left, reversed ? q.left : q.right, typing, forms_.configuration()))
    rule.inputs[input].constant = true;
  rule.source = SideWriter(q, forms_, typing).write(reversed ? q.right : q.left);
  rule.target = SideWriter(q, forms_, typing).write(reversed ? q.left : q.right);
  rule.quantities = typing.quantities;
  rule.conditions = typing.conditions;
  rule.predicates = typing.predicates;
  rule.math = needs_finite(q, forms_.configuration()) ? MathClass::kNeedsFinite : MathClass::kReassociates;
  try {
    check_rule(rule);
  } catch (const Error&) {  // the source does not bind everything that the target needs
    return std::nullopt;
  }
  return rule;
}

std::optional<Rule> RuleWriter::as_found(const Equation& q) const {
  const Typing typing = concrete_typing(q, forms_);
  for (const bool reversed : {false, true}) {
    if (!(reversed ? is_source(q, q.right, q.left) : is_source(q, q.left, q.right))) continue;
    if (auto found = rule(q, typing, reversed, "as_found")) return found;
  }
  return std::nullopt;
}

bool RuleWriter::agrees(const Rule& rule) {
  const auto [at, fresh] = agreed_.try_emplace(contents(rule), false);
  if (!fresh) return at->second;
  const int instances = options_.prove ? std::min(options_.instances, kInstancesBeforeProof) : options_.instances;
  try {
    InstanceSampler sampler(rule, options_.seed);
    std::mt19937_64 random(options_.seed);
    for (int n = 0; n < instances; ++n) {
      const auto instance = sampler.sample(kSamplingAttempts);
      if (!instance) return false;
      if (compare_sides(rule, *instance, n, random)) return false;
    }
    at->second = true;
  } catch (const Error&) {  // it cannot be stated so
  }
  return at->second;
}

std::optional<Rule> RuleWriter::proved(const Rule& rule) {
  if (!options_.prove) return rule;
  const auto [at, fresh] = proved_.try_emplace(contents(rule));
  if (fresh) {
    at->second = options_.prove(rule);
    if (at->second && test_rule(*at->second, kInstancesAfterProof, options_.seed).outcome == TestOutcome::kRefuted)
      at->second.reset();
  }
  if (!at->second) return std::nullopt;
  Rule result = *at->second;
  result.name = rule.name, result.description = rule.description;
  return result;
}

// Claims a class of rounding only if numbers at the ends of their range do not refute it.
Rule RuleWriter::with_tested_rounding(Rule rule) const {
  for (const MathClass weaker : {MathClass::kReassociates, MathClass::kCancels, MathClass::kNeedsFinite})
    if (rule.math < weaker && test_rounding(rule, rule.math, kRoundingInstances, options_.seed)) rule.math = weaker;
  return rule;
}

std::vector<Rule> RuleWriter::write(const Equation& q, bool reversed, const std::string& name, std::vector<Typing>& used) {
  std::vector<Rule> result;
  std::optional<std::pair<Rule, Typing>> fallback;  // a rule about certain windows; a later family may have symbols for them
  const auto accept = [&](Rule r, Typing typing) {
    result.push_back(with_tested_rounding(std::move(r)));
    used.push_back(std::move(typing));
  };
  for (const Family& family : families(q, forms_)) {
    if (fallback && !family.windows) continue;
    const std::string full_name = numbered(name, result.size());
    const auto said = [&](const Typing& typing) -> std::optional<Rule> {
      auto r = rule(q, typing, reversed, full_name);
      return r && !(r->source == r->target) && agrees(*r) ? r : std::nullopt;
    };
    std::vector<std::pair<Rule, Typing>> chain;
    if (auto first = said(family.base)) chain.emplace_back(std::move(*first), family.base);
    Typing typing = family.base;
    int taken = -1;
    for (const Family::Step& step : family.steps) {
      if (step.subject == taken) continue;
      Typing next = typing;
      if (!step.take(next)) continue;
      auto r = said(next);
      if (!r) continue;
      taken = step.subject;
      typing = std::move(next);
      chain.emplace_back(std::move(*r), typing);
    }
    if (chain.empty()) continue;
    const std::optional<Rule> found = as_found(q);  // whose sizes are not 1 by chance
    if (chain.back().first.math == MathClass::kReassociates && found &&
        same_operations(*found, kExactInstances, options_.seed) &&
        same_operations(chain.back().first, kExactInstances, options_.seed)) {
      for (auto& [r, t] : chain) r.math = MathClass::kExact;
      Typing any = typing;
      any.any_type = true;
      if (auto r = rule(q, any, reversed, full_name)) {
        r->math = MathClass::kExact;
        if (agrees(*r)) chain.emplace_back(std::move(*r), std::move(any));
      }
    }
    std::optional<std::pair<Rule, Typing>> written;
    for (std::size_t i = chain.size(), attempts = 0; i-- > 0 && attempts < kProofAttempts && !written; ++attempts)
      if (auto r = proved(chain[i].first)) written.emplace(std::move(*r), chain[i].second);
    if (!written) continue;
    if (!fallback && !family.windows && speaks_of_windows(written->second, q, forms_.configuration())) {
      fallback = std::move(written);
      continue;
    }
    fallback.reset();
    accept(std::move(written->first), std::move(written->second));
    if (family.last) return result;
  }
  if (fallback) accept(std::move(fallback->first), std::move(fallback->second));
  return result;
}

std::vector<Rule> RuleWriter::write_as(const Equation& q, bool reversed, const std::string& name,
                                       const std::vector<Typing>& used) {
  std::vector<Rule> result;
  for (const Typing& typing : used) {
    auto r = rule(q, typing, reversed, numbered(name, result.size()));
    if (!r || !agrees(*r)) return {};
    if (r->math == MathClass::kReassociates) {
      Typing real = typing;  // for real element types only
      real.any_type = false;
      const auto on_reals = rule(q, real, reversed, name);
      if (on_reals && same_operations(*on_reals, kExactInstances, options_.seed)) r->math = MathClass::kExact;
    }
    if (!(r = proved(*r))) return {};
    result.push_back(with_tested_rounding(std::move(*r)));
  }
  return result;
}

std::vector<Rule> RuleWriter::write_as_found(const Equation& q, const std::string& name) {
  std::vector<Rule> result;
  for (const bool reversed : {false, true})
    for (Rule& r : write_as(q, reversed, reversed ? name + "_reversed" : name, {concrete_typing(q, forms_)}))
      if (reversed ? is_source(q, q.right, q.left) : is_source(q, q.left, q.right)) result.push_back(std::move(r));
  return result;
}

std::vector<Rule> RuleWriter::write(const Equation& q, const std::string& name) {
  const double left = cost(q, q.left, forms_), right = cost(q, q.right, forms_);
  const std::size_t many = q.operators(q.left), few = q.operators(q.right);
  std::vector<Rule> result;
  std::vector<Typing> used;
  for (const bool reversed : {false, true}) {
    if (reversed ? right < left && few < many : left < right && many < few) continue;
    if (!(reversed ? is_source(q, q.right, q.left) : is_source(q, q.left, q.right))) continue;
    const std::string full_name = reversed ? name + "_reversed" : name;
    std::vector<Rule> rules = write_as(q, reversed, full_name, used);
    if (rules.empty()) rules = write(q, reversed, full_name, used);
    for (Rule& r : rules) result.push_back(std::move(r));
  }
  return result;
}

}  // namespace rewright::generator
