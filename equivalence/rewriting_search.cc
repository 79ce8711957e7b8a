#include "equivalence/rewriting_search.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "equivalence/term_elements.h"
#include "optimizer/saturation/saturation.h"
#include "verifier/checker/questions.h"

namespace rewright::equivalence {

namespace {

constexpr std::size_t kMostTermNodes = 48, kMostTerms = 100;
constexpr std::size_t kMostEvaluated = 8;  // terms for one constant whose elements are all computed
constexpr std::size_t kMostParts = 200;
constexpr std::size_t kMostForms = 8, kMostInForm = 6;  // forms of a value; nodes of one that are no constants

Limits limits_of(double seconds) {
  const auto time = std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
  return Limits(std::chrono::steady_clock::now() + time, ~std::size_t{0}, {});
}

SaturationOptions options_of(const RewritingEffort& effort) {
  SaturationOptions options;
  options.nodes = effort.nodes, options.iterations = effort.iterations;
  return options;
}

// A graph, and what rules make of it within the effort.
struct Rewritten {
  Rewritten(Graph given, const RuleIndex& rules, const RewritingEffort& effort)
      : graph(std::move(given)), saturation(graph, rules, options_of(effort)) {
    Limits limits = limits_of(effort.seconds);
    saturation.run(limits);
  }
  Graph graph;
  Saturation saturation;
};

// The nodes that the second output needs, in order.
std::vector<std::size_t> nodes_of_second(const Graph& graph) {
  const std::vector<std::int32_t> producers = graph.producers();
  std::set<std::size_t> needed;
  std::vector<ValueId> open{graph.outputs()[1].value};
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (producers[id] < 0 || !needed.insert(static_cast<std::size_t>(producers[id])).second) continue;
    for (const ValueId input : graph.nodes()[static_cast<std::size_t>(producers[id])]->inputs)
      if (input != kNoValue) open.push_back(input);
  }
  return {needed.begin(), needed.end()};
}

// Applications name terms where the e-graph has its own numbers.
std::vector<Application> in_terms(const Graph& graph, const RuleIndex& rules, const CertificateStep& step) {
  EGraph again(graph, rules.options().for_training);
  EMatcher matcher(again, rules);
  again.rebuild();
  const TermTable terms(graph);
  std::map<ENodeId, std::uint32_t> numbers;
  for (ENodeId id = 0; id < again.node_count(); ++id) {
    const ENode& node = again.node(id);
    numbers.emplace(id, node.leaf != kNoValue ? terms.term_of_value(node.leaf)
                                              : terms.term_of_node(static_cast<std::size_t>(node.position)));
  }
  auto next = static_cast<std::uint32_t>(terms.size());
  std::vector<Application> result;
  for (const Rewrite& rewrite : step.rewrites) {
    const std::uint32_t rule = rules.find(rewrite.rule).value();
    std::vector<ENodeId> where(rewrite.where.begin(), rewrite.where.end());
    Application application{rewrite.rule, {}, rewrite.swapped};
    for (const ENodeId id : where) application.where.push_back(numbers.at(id));
    const std::optional<EMatch> match = matcher.find_at(rule, where, rewrite.swapped);
    const std::optional<EMatcher::Made> made = match ? matcher.apply(*match, 0) : std::nullopt;
    if (!made) return {};
    again.rebuild();
    for (const ENodeId id : made->nodes) numbers.emplace(id, next++);
    result.push_back(std::move(application));
  }
  return result;
}

// The smallest terms of constants of the first model, by class; or of these and of what the statement reads.
class Terms {
 public:
  enum class Over { kConstants, kLeaves };
  // With `folded`, the terms over constants, these cost nothing where other operators read them.
  Terms(const Joint& joint, const Statement& statement, const Saturation& saturation, Over over, const Terms* folded = nullptr)
      : joint_(joint),
        statement_(statement),
        graph_(saturation.graph()),
        over_(over),
        folded_(folded),
        constant_(joint.graph().constant_values()) {
    bool changed = true;
    while (changed) {
      changed = false;
      for (ENodeId id = 0; id < graph_.node_count(); ++id) changed = offer(id) || changed;
    }
  }

  // The e-nodes' classes with a term of this type, smallest terms first.
  std::vector<ClassId> of_type(const TensorType& type) const {
    std::vector<std::pair<std::size_t, ClassId>> found;
    for (const auto& [id, best] : best_)
      if (graph_.type_of(graph_.type(id)) == type) found.emplace_back(best.cost, id);
    std::sort(found.begin(), found.end());
    if (found.size() > kMostTerms) found.resize(kMostTerms);
    std::vector<ClassId> result;
    for (const auto& [cost, id] : found) result.push_back(id);
    return result;
  }

  // The constants that the operators of other forms of a value read, form by form: what was folded for one of them fits
  // together.
  std::vector<std::vector<ClassId>> read_by_forms(ClassId value) const {
    std::vector<std::vector<ClassId>> result;
    for (const ENodeId id : graph_.makers(graph_.find(value))) {
      const ENode& node = graph_.node(id);
      if (!node.op || node.position >= 0) continue;
      std::vector<ClassId> constants;
      for (const ClassId input : graph_.inputs(id))
        if (input != kNoClass && has(input)) constants.push_back(graph_.find(input));
      if (!constants.empty()) result.push_back(std::move(constants));
    }
    return result;
  }

  // The classes of reals with a term that is no leaf, smallest terms first.
  std::vector<ClassId> computed() const {
    std::vector<std::pair<std::size_t, ClassId>> found;
    for (const auto& [id, best] : best_)
      if (best.cost > 0 && is_real(graph_.type_of(graph_.type(id)).type)) found.emplace_back(best.cost, id);
    std::sort(found.begin(), found.end());
    if (found.size() > kMostParts) found.resize(kMostParts);
    std::vector<ClassId> result;
    for (const auto& [cost, id] : found) result.push_back(id);
    return result;
  }

  const TensorType& type_of(ClassId id) const { return graph_.type_of(graph_.type(id)); }
  bool has(ClassId id) const { return best_.count(graph_.find(id)) > 0; }
  std::size_t cost(ClassId id) const { return best_.at(graph_.find(id)).cost; }

  // A step whose term computes the class; its `b` is not set.
  Step step_of(ClassId id) {
    return finished([&](Step& step, Rule& rule, std::map<ClassId, PatternValue>& made) { return add(id, step, rule, made); });
  }
  // The step of an e-node, whose operands have terms; `nodes` gets the e-nodes of the term, operands first.
  Step step_of_node(ENodeId id, std::vector<ENodeId>& nodes) {
    added_ = &nodes;
    return finished(
        [&](Step& step, Rule& rule, std::map<ClassId, PatternValue>& made) { return add_node(id, step, rule, made); });
  }

 private:
  template <class Add>
  Step finished(const Add& add_output) {
    Step step;
    step.kind = Step::Kind::kTerm;
    Rule rule;
    rule.name = "term", rule.description = "of constants";
    std::map<ClassId, PatternValue> made;
    const PatternValue output = add_output(step, rule, made);
    if (output.kind == PatternValue::Kind::kInput) return step;
    rule.source.outputs = {output};
    rule.source = canonical(rule.source);
    rule.target = rule.source;
    step.term = std::move(rule);
    return step;
  }

  struct Best {
    std::size_t cost = 0;
    ENodeId node = 0;
    std::uint32_t output = 0;
  };

  // A constant of the first model, or what it computes from constants.
  bool is_known_constant(ValueId of_class) const {
    const ValueId id = joint_.defined_by(of_class);
    return joint_.is_known(of_class) && (joint_.is_constant(id) || (joint_.is_of_first(id) && constant_[id]));
  }
  bool is_leaf(ValueId of_class) const {
    if (is_known_constant(of_class)) return true;
    return over_ == Over::kLeaves && joint_.is_of_first(joint_.defined_by(of_class));
  }

  bool offer(ENodeId id) {
    const ENode& node = graph_.node(id);
    if (!node.live) return false;
    std::size_t cost = 0;
    if (node.leaf != kNoValue) {
      if (!is_leaf(statement_.classes.at(node.leaf))) return false;
    } else {
      if (!node.op || node.op->random()) return false;
      cost = 1;
      for (const ClassId input : graph_.inputs(id)) {
        if (input == kNoClass) continue;
        const auto known = best_.find(graph_.find(input));
        if (known == best_.end()) return false;
        if (!folded_ || !folded_->has(input)) cost += known->second.cost;
      }
      // Other outputs of a node are not named in a term.
      if (cost > kMostTermNodes || graph_.outputs(id).size() != 1) return false;
    }
    const ClassId output = graph_.find(graph_.outputs(id)[0]);
    const auto [known, is_new] = best_.try_emplace(output, Best{cost, id, 0});
    if (!is_new && known->second.cost <= cost) return false;
    known->second = {cost, id, 0};
    return true;
  }

  PatternValue add(ClassId value, Step& step, Rule& rule, std::map<ClassId, PatternValue>& made) {
    const ClassId id = graph_.find(value);
    if (const auto known = made.find(id); known != made.end()) return known->second;
    const ENodeId best = best_.at(id).node;
    const ENode& node = graph_.node(best);
    if (node.leaf != kNoValue) {
      const Value& leaf = graph_.graph().value(node.leaf);
      PatternInput input;
      input.name = "x" + std::to_string(rule.inputs.size());
      const Indices& shape = leaf.type.shape;
      // Sizes that are open have names that algebra may not have.
      input.shape.open = !std::all_of(shape.begin(), shape.end(), [](const Index& size) { return size.is_constant(); });
      if (!input.shape.open) input.shape.front = shape;
      input.type = {TypePattern::Kind::kFixed, leaf.type.type, ""};
      rule.inputs.push_back(std::move(input));
      step.equation.leaves.push_back(joint_.defined_by(statement_.classes.at(node.leaf)));
      return made.emplace(id, PatternValue::input(static_cast<std::uint32_t>(rule.inputs.size() - 1))).first->second;
    }
    return made.emplace(id, add_node(best, step, rule, made)).first->second;
  }

  PatternValue add_node(ENodeId best, Step& step, Rule& rule, std::map<ClassId, PatternValue>& made) {
    const ENode& node = graph_.node(best);
    PatternNode added{node.op, {}, {}, 1};
    for (const AttributeValue& attribute : graph_.attributes(node.attributes))
      added.attributes.push_back(Expression::literal(attribute));
    for (const ClassId input : graph_.inputs(best))
      added.inputs.push_back(input == kNoClass ? PatternValue::absent() : add(input, step, rule, made));
    rule.source.nodes.push_back(std::move(added));
    if (added_) added_->push_back(best);
    return PatternValue::node(static_cast<std::uint32_t>(rule.source.nodes.size() - 1));
  }

  const Joint& joint_;
  const Statement& statement_;
  const EGraph& graph_;
  const Over over_;
  const Terms* folded_;
  std::vector<ENodeId>* added_ = nullptr;
  std::vector<bool> constant_;  // by value of the joint table: computed from constants alone
  std::map<ClassId, Best> best_;
};

}  // namespace

const Rule* rule_named(const RuleIndex& rules, const std::string& name) {
  const std::optional<std::uint32_t> number = rules.find(name);
  return number ? &rules.rules()[*number] : nullptr;
}

bool proves(const Statement& statement, const RuleIndex& rules, const std::vector<Application>& applications) {
  try {
    TermTable terms(statement.graph);
    for (const Application& application : applications) {
      const Rule* rule = rule_named(rules, application.rule);
      if (!rule) return false;
      terms.apply(*rule, application);
    }
    return terms.outputs_are_equal();
  } catch (const proof::Refusal&) {
    return false;
  } catch (const Error&) {
    return false;
  }
}

std::optional<std::vector<Application>> search_rewrites(const Statement& statement, const RuleIndex& rules,
                                                        const RewritingEffort& effort) {
  SaturationOptions options;
  options.nodes = effort.nodes, options.iterations = 1;
  Saturation saturation(statement.graph, rules, options);
  Limits limits = limits_of(effort.seconds);
  const EGraph& e = saturation.graph();
  const ClassId a = e.value_of(statement.graph.outputs()[0].value), b = e.value_of(statement.graph.outputs()[1].value);
  for (std::size_t i = 0; i < effort.iterations && !e.equal(a, b); ++i)
    if (saturation.run(limits) != StopReason::kDone) break;
  if (!e.equal(a, b)) return std::nullopt;
  std::vector<ENodeId> chosen;
  for (const std::size_t position : nodes_of_second(statement.graph))
    chosen.push_back(e.node_at(static_cast<std::int32_t>(position)).value());
  try {
    std::vector<Application> found = in_terms(statement.graph, rules, explain_choice(saturation, chosen));
    if (proves(statement, rules, found)) return found;
  } catch (const Error&) {  // an explanation that cannot be followed
  }
  return std::nullopt;
}

namespace {

// The first value's side alone: what it does not mention cannot explain anything.
Graph first_side(const Statement& statement) {
  Graph first = statement.graph;
  first.set_outputs({first.outputs()[0], first.outputs()[0]});
  first.drop_nodes_from(statement.nodes_of_a);
  return first;
}

// A term for the constant among those of its type.
std::optional<Step> explained_by(const Joint& joint, Terms& terms, ValueId constant, const std::vector<ClassId>& candidates,
                                 double tolerance) {
  const Value& value = joint.graph().value(constant);
  const double largest = largest_element(value.constant);
  std::size_t evaluated = 0;
  for (const ClassId candidate : candidates) try {
      if (!(terms.type_of(candidate) == value.type)) continue;
      Step step = terms.step_of(candidate);
      step.equation.b = constant;
      if (step.term && !TermElements(joint, step).may_be(value.constant, largest)) continue;
      if (++evaluated > kMostEvaluated) break;
      if (check_term(joint, step, tolerance).explained) return step;
    } catch (const proof::Refusal&) {  // no term that can be computed
    } catch (const Error&) {
    }
  return std::nullopt;
}

// Attributes that mention open sizes: no term can say them.
bool has_open_sizes(const Step& step) try {
  for (const PatternNode& node : step.term->source.nodes)
    for (const Expression& e : node.attributes) Bindings(*step.term).evaluate(e);
  return false;
} catch (const Error&) {
  return true;
}

bool is_open_constant(const Joint& joint, ValueId of_class) {
  const ValueId id = joint.defined_by(of_class);
  return joint.is_constant(id) && !joint.is_known(of_class) && is_real(joint.graph().value(id).type.type) &&
         !joint.is_explained(id);
}

}  // namespace

TermSearch search_terms(const Joint& joint, const Statement& statement, const RuleIndex& rules, double tolerance,
                        const RewritingEffort& effort) {
  std::set<ValueId> open;
  for (ValueId id = 0; id < statement.graph.value_count(); ++id)
    if (statement.graph.is_constant(id) && is_open_constant(joint, statement.classes.at(id)))
      open.insert(joint.defined_by(statement.classes.at(id)));
  TermSearch result;
  if (open.empty()) return result;
  Rewritten rewritten(first_side(statement), rules, effort);
  const Graph& first = rewritten.graph;
  Saturation& saturation = rewritten.saturation;
  Terms terms(joint, statement, saturation, Terms::Over::kConstants);
  const std::vector<std::vector<ClassId>> forms = terms.read_by_forms(saturation.graph().value_of(first.outputs()[0].value));
  for (const std::vector<ClassId>& form : forms) {
    std::vector<Step> all;
    for (const ValueId constant : open) {
      auto step = explained_by(joint, terms, constant, form, tolerance);
      if (!step) break;
      all.push_back(std::move(*step));
    }
    if (all.size() < open.size()) continue;
    result.explained = std::move(all);
    return result;
  }
  for (const ValueId constant : open)
    if (auto step = explained_by(joint, terms, constant, terms.of_type(joint.graph().value(constant).type), tolerance))
      result.explained.push_back(std::move(*step));
  if (result.explained.size() == open.size()) return result;
  std::set<ClassId> done;
  const auto add_part = [&](ClassId id) {
    if (!done.insert(id).second) return;
    result.parts.push_back(terms.step_of(id));
    result.parts.back().kind = Step::Kind::kValue;
  };
  for (const std::vector<ClassId>& form : forms)
    for (const ClassId id : form) add_part(id);
  for (const ClassId id : terms.computed()) add_part(id);
  return result;
}

std::vector<Form> search_forms(const Joint& joint, const Statement& statement, const RuleIndex& rules,
                               const RewritingEffort& effort) {
  std::set<const Operator*> wanted;
  for (std::size_t n = statement.nodes_of_a; n < statement.graph.nodes().size(); ++n)
    wanted.insert(statement.graph.nodes()[n]->op);
  Rewritten rewritten(first_side(statement), rules, effort);
  const Graph& first = rewritten.graph;
  Saturation& saturation = rewritten.saturation;
  const EGraph& e = saturation.graph();
  const Terms constants(joint, statement, saturation, Terms::Over::kConstants);
  Terms terms(joint, statement, saturation, Terms::Over::kLeaves, &constants);
  std::vector<std::pair<std::size_t, ENodeId>> found;
  for (const ENodeId id : e.makers(e.find(e.value_of(first.outputs()[0].value)))) {
    const ENode& node = e.node(id);
    if (!node.op || node.op->random() || e.outputs(id).size() != 1 || !wanted.count(node.op)) continue;
    std::size_t cost = 1;
    bool complete = true;
    for (const ClassId input : e.inputs(id)) {
      if (input == kNoClass) continue;
      complete = complete && terms.has(input);
      if (complete && !constants.has(input)) cost += terms.cost(input);
    }
    if (complete && cost <= kMostInForm) found.emplace_back(cost, id);
  }
  std::sort(found.begin(), found.end());
  std::vector<Form> result;
  for (const auto& [cost, id] : found) {
    if (result.size() >= kMostForms) break;
    std::vector<ENodeId> nodes;
    Form form{terms.step_of_node(id, nodes), {}, TermTable(first).term_of_node(0), first.nodes().size()};
    form.value.kind = Step::Kind::kValue;
    const bool is_as_given = std::all_of(nodes.begin(), nodes.end(), [&](ENodeId n) { return e.node(n).position >= 0; });
    if (is_as_given || has_open_sizes(form.value)) continue;
    try {
      form.applications = in_terms(first, rules, explain_choice(saturation, nodes));
    } catch (const Error&) {  // an explanation that cannot be followed
    }
    result.push_back(std::move(form));
  }
  return result;
}

std::optional<std::vector<Application>> follow_form(const Form& form, const Statement& statement, const RuleIndex& rules) {
  if (form.applications.empty() || statement.nodes_of_a != form.nodes) return std::nullopt;
  // The value's own leaves stand first in both; between them and its nodes are those of the second value.
  const std::size_t leaves = TermTable(statement.graph).term_of_node(0);
  const std::size_t added = statement.graph.nodes().size() - statement.nodes_of_a;
  std::vector<Application> result = form.applications;
  for (Application& application : result)
    for (std::uint32_t& term : application.where) {
      if (term < form.leaves && term < leaves) continue;
      term = static_cast<std::uint32_t>(term - form.leaves + leaves + (term >= form.leaves + form.nodes ? added : 0));
    }
  return proves(statement, rules, result) ? std::optional(std::move(result)) : std::nullopt;
}

}  // namespace rewright::equivalence
