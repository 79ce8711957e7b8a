#include "generator/pruning/rule_graph.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/hash_mix.h"
#include "operators/readings/interpreter.h"

namespace rewright::generator {

namespace {

constexpr std::int64_t kLargestConstant = 4096;  // elements that are evaluated
constexpr std::size_t kShare = 2, kLeast = 40;   // a round adds at most 1 / kShare of the applications, or kLeast
constexpr std::size_t kMostJoint = 500;          // matches of a rule with several roots in one round

bool is_empty(const TensorType& type) {
  return std::any_of(type.shape.begin(), type.shape.end(), [](const Index& size) { return size.constant() == 0; });
}

bool is_literal(const AttributeValue& value) {
  const Real* real = std::get_if<Real>(&value);
  return !real || real->symbol.empty();
}

// Equal up to the rounding of a few operations.
bool equal(const Tensor& a, const Tensor& b) {
  if (a.type() != b.type() || a.sizes() != b.sizes()) return false;
  if (!is_real(a.type())) return a == b;
  const std::vector<double> x = a.reals(), y = b.reals();
  for (std::size_t i = 0; i < x.size(); ++i)
    if (!(std::abs(x[i] - y[i]) <= 1e-5 * std::max({1.0, std::abs(x[i]), std::abs(y[i])}))) return false;
  return true;
}

}  // namespace

RuleGraph::ClassNumber RuleGraph::add_class(TensorType type) {
  types_.push_back(std::move(type));
  return classes_.add();
}

std::vector<RuleGraph::ClassNumber> RuleGraph::add(const Operator& op, Attributes attributes,
                                                   std::vector<ClassNumber> operands) {
  std::vector<std::optional<TensorType>> types;
  for (ClassNumber& c : operands) {
    if (c != kNothing) c = find(c);
    types.push_back(c == kNothing ? std::nullopt : std::optional(types_[c]));
  }
  const Inputs inputs = Inputs::of(std::span<const std::optional<TensorType>>(types)).types_only();
  try {
    Application a{&op, op.normalized(std::move(attributes), inputs), std::move(operands), {}};
    order(a);
    if (const auto known = lookup(a)) return applications_[*known].outputs;
    if (full_) return {};
    const Definition definition = op.define(a.attributes, inputs);
    for (const Output& output : definition.outputs())
      if (is_empty(output.type)) return {};
    for (const Output& output : definition.outputs()) a.outputs.push_back(add_class(output.type));
    const auto number = static_cast<std::uint32_t>(applications_.size());
    known_.insert(hash_of(a), number);
    applications_.push_back(std::move(a));
    evaluate(number);
    return applications_[number].outputs;
  } catch (const Error&) {
    return {};
  }
}

std::vector<RuleGraph::ClassNumber> RuleGraph::add(const Pattern& side, const std::vector<ClassNumber>& inputs,
                                                   const Bindings& bindings) {
  std::vector<std::vector<ClassNumber>> values;
  const auto place = [&](const PatternValue& v) -> ClassNumber {
    if (v.kind == PatternValue::Kind::kAbsent) return kNothing;
    if (v.kind == PatternValue::Kind::kInput) return inputs[v.number];
    return v.output < values[v.number].size() ? values[v.number][v.output] : kNothing;
  };
  for (const PatternNode& node : side.nodes) {
    Attributes attributes;
    for (const rules::Expression& e : node.attributes) {
      auto value = bindings.try_evaluate(e);
      if (!value) return {};
      attributes.push_back(std::move(*value));
    }
    std::vector<ClassNumber> operands;
    for (const PatternValue& v : node.inputs) {
      operands.push_back(place(v));
      if (operands.back() == kNothing && v.kind != PatternValue::Kind::kAbsent) return {};
    }
    values.push_back(add(*node.op, std::move(attributes), std::move(operands)));
    if (values.back().size() < node.outputs) return {};
  }
  std::vector<ClassNumber> outputs;
  for (const PatternValue& v : side.outputs) outputs.push_back(place(v));
  return outputs;
}

bool RuleGraph::round(const std::vector<const DirectedRule*>& rules, std::size_t limit) {
  rebuild();
  struct Found {
    std::size_t rule;
    std::uint64_t hash;
    State state;
  };
  std::vector<Found> all;
  for (std::size_t r = 0; r < rules.size(); ++r) {
    rule_ = &rules[r]->rule;
    joint_ = kMostJoint;
    const auto roots = by_operator_.find(rule_->source.nodes[rule_->source.outputs[0].number].op);
    if (roots == by_operator_.end()) continue;
    state_ = {std::vector<ClassNumber>(rule_->inputs.size(), kNothing),
              std::vector<std::uint32_t>(rule_->source.nodes.size(), kNothing), std::vector<bool>(rule_->source.nodes.size())};
    for (const std::uint32_t a : roots->second)
      match_root(0, a, [&] {
        const std::uint64_t hash = hash_of_match(r);
        if (joint_ == 0 || !applied_.insert(hash).second) return;
        all.push_back({r, hash, state_});
        if (rule_->source.outputs.size() > 1) --joint_;
      });
  }
  std::stable_sort(all.begin(), all.end(),
                   [&](const Found& a, const Found& b) { return rules[a.rule]->growth() < rules[b.rule]->growth(); });
  const std::size_t before = applications_.size(), merges = merges_;
  const std::size_t most = std::min(limit, before + std::max(before / kShare, kLeast));
  for (const Found& f : all) {
    full_ = applications_.size() >= most;
    apply(rules[f.rule]->rule, f.state);
    if (full_) applied_.erase(f.hash);  // applied again later: merges may make its result exist already
  }
  full_ = false;
  rebuild();
  return applications_.size() != before || merges_ != merges;
}

void RuleGraph::order(Application& a) {
  if (a.op->commutative() && a.operands.size() >= 2 && a.operands[1] < a.operands[0]) std::swap(a.operands[0], a.operands[1]);
}

std::uint64_t RuleGraph::hash_of(const Application& a) {
  std::uint64_t h = hash(a.attributes) ^ reinterpret_cast<std::uintptr_t>(a.op);
  for (const ClassNumber c : a.operands) h = hash_mix(h, c);
  return h;
}

std::optional<std::uint32_t> RuleGraph::lookup(const Application& a) const {
  return known_.find(hash_of(a), [&](std::uint32_t number) {
    const Application& other = applications_[number];
    return other.op == a.op && other.operands == a.operands && other.attributes == a.attributes;
  });
}

void RuleGraph::merge(ClassNumber a, ClassNumber b) {
  const auto names = classes_.merge(a, b);
  if (!names) return;
  const auto [first, second] = *names;
  ++merges_;
  if (const auto constant = constants_.find(second); constant != constants_.end()) {
    constants_.emplace(first, constant->second);
    constants_.erase(constant);
  }
}

// Congruence: applications with equal operands are merged.
void RuleGraph::rebuild() {
  known_.rehash([&] {
    const std::size_t merges = merges_;
    std::vector<Application> kept;
    std::swap(kept, applications_);
    for (Application& a : kept) {
      for (ClassNumber& c : a.operands)
        if (c != kNothing) c = find(c);
      order(a);
      if (const auto same = lookup(a)) {
        for (std::size_t o = 0; o < a.outputs.size(); ++o) merge(applications_[*same].outputs[o], a.outputs[o]);
        continue;
      }
      known_.insert(hash_of(a), static_cast<std::uint32_t>(applications_.size()));
      applications_.push_back(std::move(a));
    }
    return merges_ != merges;
  });
  members_.clear();
  by_operator_.clear();
  users_.clear();
  for (std::uint32_t a = 0; a < applications_.size(); ++a) {
    by_operator_[applications_[a].op].push_back(a);
    for (std::uint32_t o = 0; o < applications_[a].outputs.size(); ++o)
      members_[find(applications_[a].outputs[o])].emplace_back(a, o);
    for (const ClassNumber c : applications_[a].operands) {
      if (c == kNothing) continue;
      std::vector<std::uint32_t>& users = users_[c];
      if (users.empty() || users.back() != a) users.push_back(a);
    }
  }
}

// ---- Constants

void RuleGraph::evaluate(std::uint32_t application) {
  const Application a = applications_[application];
  std::vector<Tensor> operands;
  for (const ClassNumber c : a.operands) {
    operands.emplace_back();
    if (c == kNothing) continue;
    const auto constant = constants_.find(find(c));
    if (constant == constants_.end()) return;
    operands.back() = constant->second;
  }
  for (const ClassNumber c : a.outputs) {
    std::int64_t count = 1;
    for (const Index& size : types_[c].shape) {
      if (!size.is_constant() || size.value() > kLargestConstant) return;
      count *= size.value();
    }
    if (count > kLargestConstant) return;
  }
  std::vector<Tensor> values;
  try {
    values = interpret(*a.op, a.attributes, operands);
  } catch (const Error&) {
    return;  // unknown value
  }
  for (std::size_t o = 0; o < a.outputs.size(); ++o) set_constant(a.outputs[o], std::move(values[o]));
}

void RuleGraph::set_constant(ClassNumber c, Tensor value) {
  for (const auto& [other, known] : constants_)
    if (equal(known, value)) return merge(c, other);
  constants_.emplace(find(c), value);
  // In a source, Fill matches any constant whose elements are equal.
  if (!is_real(value.type())) return;
  const std::vector<double> elements = value.reals();
  if (std::any_of(elements.begin(), elements.end(), [&](double e) { return e != elements[0]; })) return;
  const Operator& fill = registry().get("Fill");
  Attributes attributes = fill.defaults();
  Indices shape;
  for (const std::int64_t size : value.sizes()) shape.emplace_back(size);
  attributes[*fill.field("value")] = Real(elements[0]);
  attributes[*fill.field("shape")] = shape;
  attributes[*fill.field("type")] = value.type();
  const std::vector<ClassNumber> filled = add(fill, std::move(attributes), {});
  if (!filled.empty()) merge(c, filled[0]);
}

// ---- Matching

// Matches the source's root number `root` at an application, then the remaining roots anywhere.
void RuleGraph::match_root(std::size_t root, std::uint32_t application, const Continue& found) {
  match_node(rule_->source.outputs[root].number, application, [&] { next_root(root + 1, found); });
}

void RuleGraph::next_root(std::size_t root, const Continue& found) {
  if (root == rule_->source.outputs.size()) return found();
  const PatternValue& output = rule_->source.outputs[root];
  if (state_.nodes[output.number] != kNothing) return next_root(root + 1, found);
  const PatternNode& node = rule_->source.nodes[output.number];
  const std::vector<std::uint32_t>* candidates = nullptr;
  for (const PatternValue& v : node.inputs)
    if (const auto users = users_.find(bound(v)); users != users_.end() && !candidates) candidates = &users->second;
  if (const auto roots = by_operator_.find(node.op); !candidates && roots != by_operator_.end()) candidates = &roots->second;
  if (!candidates) return;
  for (const std::uint32_t a : *candidates)
    if (joint_ > 0) match_root(root, a, found);
}

// The class bound to a value of the source; kNothing if it is not matched yet.
RuleGraph::ClassNumber RuleGraph::bound(const PatternValue& v) const {
  if (v.kind == PatternValue::Kind::kInput) return state_.inputs[v.number];
  if (v.kind == PatternValue::Kind::kAbsent || state_.nodes[v.number] == kNothing) return kNothing;
  return find(applications_[state_.nodes[v.number]].outputs[v.output]);
}

void RuleGraph::match(const PatternValue& wanted, ClassNumber c, const Continue& found) {
  if (wanted.kind == PatternValue::Kind::kAbsent) {
    if (c == kNothing) found();
    return;
  }
  if (c == kNothing) return;
  c = find(c);
  if (wanted.kind == PatternValue::Kind::kInput) {
    ClassNumber& bound = state_.inputs[wanted.number];
    if (bound != kNothing) {
      if (bound == c) found();
      return;
    }
    bound = c;
    found();
    bound = kNothing;
    return;
  }
  if (const std::uint32_t known = state_.nodes[wanted.number]; known != kNothing) {
    const auto& outputs = applications_[known].outputs;
    if (wanted.output < outputs.size() && find(outputs[wanted.output]) == c) found();
    return;
  }
  const auto members = members_.find(c);
  if (members == members_.end()) return;
  for (const auto& [a, output] : members->second)
    if (output == wanted.output) match_node(wanted.number, a, found);
}

void RuleGraph::match_node(std::uint32_t node, std::uint32_t application, const Continue& found) {
  const PatternNode& pattern = rule_->source.nodes[node];
  const Application& a = applications_[application];
  if (a.op != pattern.op || a.outputs.size() < pattern.outputs || a.operands.size() < pattern.inputs.size()) return;
  for (std::size_t k = pattern.inputs.size(); k < a.operands.size(); ++k)
    if (a.operands[k] != kNothing) return;
  for (std::size_t f = 0; f < pattern.attributes.size(); ++f)
    if (const rules::Expression& e = pattern.attributes[f];
        e.kind == rules::Expression::Kind::kValue && is_literal(e.value) && !std::holds_alternative<Index>(e.value) &&
        !std::holds_alternative<Indices>(e.value) && !(e.value == a.attributes[f]))
      return;
  state_.nodes[node] = application;
  match_operands(node, application, 0, found);
  if (pattern.op->commutative() && a.operands.size() >= 2 && a.operands[0] != a.operands[1]) {
    state_.swapped[node] = true;
    match_operands(node, application, 0, found);
    state_.swapped[node] = false;
  }
  state_.nodes[node] = kNothing;
}

void RuleGraph::match_operands(std::uint32_t node, std::uint32_t application, std::size_t k, const Continue& found) {
  const PatternNode& pattern = rule_->source.nodes[node];
  if (k == pattern.inputs.size()) return found();
  const std::size_t from = state_.swapped[node] && k < 2 ? 1 - k : k;
  match(pattern.inputs[k], applications_[application].operands[from], [&] { match_operands(node, application, k + 1, found); });
}

std::uint64_t RuleGraph::hash_of_match(std::size_t rule) const {
  std::uint64_t h = hash_mix(0, rule);
  for (const ClassNumber c : state_.inputs) h = hash_mix(h, c == kNothing ? c : find(c));
  for (const std::uint32_t a : state_.nodes) {
    h = hash_mix(h, hash(applications_[a].attributes));
    for (const ClassNumber c : applications_[a].outputs) h = hash_mix(h, find(c));
  }
  return h;
}

void RuleGraph::apply(const Rule& rule, const State& state) {
  Bindings bindings(rule);
  std::vector<ClassNumber> inputs;
  for (std::size_t i = 0; i < rule.inputs.size(); ++i) {
    if (state.inputs[i] == kNothing || !bindings.bind_input(i, types_[state.inputs[i]])) return;
    inputs.push_back(find(state.inputs[i]));
  }
  for (std::size_t n = 0; n < rule.source.nodes.size(); ++n) {
    const Application& a = applications_[state.nodes[n]];
    std::vector<std::optional<TensorType>> types;
    for (const ClassNumber c : a.operands) types.push_back(c == kNothing ? std::nullopt : std::optional(types_[find(c)]));
    if (!bindings.bind_attributes(rule.source.nodes[n], a.attributes,
                                  Inputs::of(std::span<const std::optional<TensorType>>(types))))
      return;
  }
  if (!bindings.complete()) return;
  std::vector<ClassNumber> from;
  for (const PatternValue& v : rule.source.outputs) from.push_back(applications_[state.nodes[v.number]].outputs[v.output]);
  const std::vector<ClassNumber> to = add(rule.target, inputs, bindings);
  for (std::size_t i = 0; i < to.size(); ++i)
    if (to[i] == kNothing || !(types_[find(from[i])] == types_[find(to[i])])) return;
  for (std::size_t i = 0; i < to.size(); ++i) merge(from[i], to[i]);
}

}  // namespace rewright::generator
