#include "generator/rule_theory.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>

#include "operators/error.h"
#include "rules/bindings.h"
#include "rules/instance.h"

namespace rewright::generator {

namespace {

using ClassNumber = std::uint32_t;
constexpr ClassNumber kNothing = ~ClassNumber{0};

// The rule read from right to left; nothing if that cannot be applied.
std::optional<Rule> reversed(Rule rule) {
  std::swap(rule.source, rule.target);
  try {
    check_rule(rule);
  } catch (const Error&) {
    return std::nullopt;
  }
  return rule;
}

bool is_empty(const TensorType& type) {
  return std::any_of(type.shape.begin(), type.shape.end(), [](const Index& size) { return size.constant() == 0; });
}

}  // namespace

struct RuleTheory::Impl {
  struct Directed {
    Rule rule;
    std::size_t number;
  };
  std::vector<std::unique_ptr<Directed>> directed;
  std::map<const Operator*, std::vector<std::size_t>> by_root;
  std::vector<bool> active;
};

RuleTheory::RuleTheory() : impl_(std::make_unique<Impl>()) {}
RuleTheory::~RuleTheory() = default;
RuleTheory::RuleTheory(RuleTheory&&) noexcept = default;

std::size_t RuleTheory::add(const Rule& rule) {
  const std::size_t number = impl_->active.size();
  impl_->active.push_back(true);
  const auto insert = [&](Rule r) {
    impl_->by_root[r.source.nodes[r.source.outputs[0].number].op].push_back(impl_->directed.size());
    impl_->directed.push_back(std::make_unique<Impl::Directed>(Impl::Directed{std::move(r), number}));
  };
  insert(rule);
  if (auto back = reversed(rule)) insert(std::move(*back));
  return number;
}

void RuleTheory::set_active(std::size_t number, bool active) { impl_->active[number] = active; }

class RuleGraph {
 public:
  RuleGraph(const RuleTheory::Impl& theory, std::span<const std::size_t> without) : theory_(theory), without_(without) {}

  ClassNumber find(ClassNumber c) const {
    while (parent_[c] != c) c = parent_[c];
    return c;
  }

  ClassNumber add_class(TensorType type) {
    parent_.push_back(static_cast<ClassNumber>(parent_.size()));
    types_.push_back(std::move(type));
    return parent_.back();
  }

  // The outputs of an application; none where it is ill-typed, or has a tensor without elements.
  std::vector<ClassNumber> add(const Operator& op, Attributes attributes, std::vector<ClassNumber> operands) {
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
      const Definition definition = op.define(a.attributes, inputs);
      for (const Output& output : definition.outputs())
        if (is_empty(output.type)) return {};
      for (const Output& output : definition.outputs()) a.outputs.push_back(add_class(output.type));
      remember(a, static_cast<std::uint32_t>(applications_.size()));
      applications_.push_back(std::move(a));
      return applications_.back().outputs;
    } catch (const Error&) {
      return {};
    }
  }

  // The outputs of a side for these inputs and values of the variables; none where it cannot be made.
  std::vector<ClassNumber> add(const Pattern& side, const std::vector<ClassNumber>& inputs, const Bindings& bindings) {
    std::vector<std::vector<ClassNumber>> values;
    const auto place = [&](const PatternValue& v) -> ClassNumber {
      if (v.kind == PatternValue::Kind::kAbsent) return kNothing;
      if (v.kind == PatternValue::Kind::kInput) return inputs[v.number];
      return v.output < values[v.number].size() ? values[v.number][v.output] : kNothing;
    };
    for (const PatternNode& node : side.nodes) {
      Attributes attributes;
      for (const Expression& e : node.attributes) {
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
      if (values.back().size() != node.outputs) return {};
    }
    std::vector<ClassNumber> outputs;
    for (const PatternValue& v : side.outputs) outputs.push_back(place(v));
    return outputs;
  }

  // Applies everything that matches now. False if nothing new came of it.
  bool round(std::size_t limit) {
    rebuild();
    struct Found {
      std::size_t rule;
      State state;
    };
    std::vector<Found> all;
    for (const auto& [op, rules] : theory_.by_root) {
      for (const std::size_t r : rules) {
        const std::size_t number = theory_.directed[r]->number;
        if (!theory_.active[number] || std::find(without_.begin(), without_.end(), number) != without_.end()) continue;
        rule_ = &theory_.directed[r]->rule;
        for (std::uint32_t a = 0; a < applications_.size(); ++a)
          if (applications_[a].op == op) match_root(0, a, start(), [&](const State& state) { all.push_back({r, state}); });
      }
    }
    const std::size_t before = applications_.size(), merges = merges_;
    for (const Found& f : all) {
      if (applications_.size() >= limit) break;
      apply(theory_.directed[f.rule]->rule, f.state);
    }
    rebuild();
    return applications_.size() != before || merges_ != merges;
  }

 private:
  struct Application {
    const Operator* op;
    Attributes attributes;
    std::vector<ClassNumber> operands, outputs;
  };
  // Which class stands for each input, and which application for each node of the source.
  struct State {
    std::vector<ClassNumber> inputs;
    std::vector<std::uint32_t> nodes;
    std::vector<bool> swapped;
  };
  using Continue = std::function<void(const State&)>;

  State start() const {
    return {std::vector<ClassNumber>(rule_->inputs.size(), kNothing),
            std::vector<std::uint32_t>(rule_->source.nodes.size(), kNothing), std::vector<bool>(rule_->source.nodes.size())};
  }

  void order(Application& a) const {
    if (a.op->commutative() && a.operands.size() >= 2 && a.operands[1] < a.operands[0]) std::swap(a.operands[0], a.operands[1]);
  }
  static std::uint64_t hash_of(const Application& a) {
    std::uint64_t h = hash(a.attributes) ^ reinterpret_cast<std::uintptr_t>(a.op);
    for (const ClassNumber c : a.operands) h = (h ^ c) * 0x100000001b3u + 0x9e3779b97f4a7c15u;
    return h;
  }
  std::optional<std::uint32_t> lookup(const Application& a) const {
    const auto [first, last] = known_.equal_range(hash_of(a));
    for (auto at = first; at != last; ++at) {
      const Application& other = applications_[at->second];
      if (other.op == a.op && other.operands == a.operands && other.attributes == a.attributes) return at->second;
    }
    return std::nullopt;
  }
  void remember(const Application& a, std::uint32_t number) { known_.emplace(hash_of(a), number); }

  void merge(ClassNumber a, ClassNumber b) {
    a = find(a), b = find(b);
    if (a == b) return;
    parent_[std::max(a, b)] = std::min(a, b);
    ++merges_;
  }

  // Congruence: applications whose operands have become equal are one.
  void rebuild() {
    for (std::size_t merges = merges_ + 1; merges != merges_;) {
      merges = merges_;
      known_.clear();
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
        remember(a, static_cast<std::uint32_t>(applications_.size()));
        applications_.push_back(std::move(a));
      }
    }
    members_.clear();
    for (std::uint32_t a = 0; a < applications_.size(); ++a)
      for (std::uint32_t o = 0; o < applications_[a].outputs.size(); ++o)
        members_[find(applications_[a].outputs[o])].emplace_back(a, o);
  }

  // Lays the source's root number `root` on an application, then the roots after it anywhere.
  void match_root(std::size_t root, std::uint32_t application, const State& state, const Continue& found) {
    const PatternValue& output = rule_->source.outputs[root];
    match_node(output.number, application, state, [&](const State& next) { next_root(root + 1, next, found); });
  }
  void next_root(std::size_t root, const State& state, const Continue& found) {
    if (root == rule_->source.outputs.size()) return found(state);
    const PatternValue& output = rule_->source.outputs[root];
    if (state.nodes[output.number] != kNothing) return next_root(root + 1, state, found);
    for (std::uint32_t a = 0; a < applications_.size(); ++a) match_root(root, a, state, found);
  }

  void match(const PatternValue& wanted, ClassNumber c, const State& state, const Continue& found) {
    if (wanted.kind == PatternValue::Kind::kAbsent) {
      if (c == kNothing) found(state);
      return;
    }
    if (c == kNothing) return;
    c = find(c);
    if (wanted.kind == PatternValue::Kind::kInput) {
      const ClassNumber bound = state.inputs[wanted.number];
      if (bound != kNothing) {
        if (bound == c) found(state);
        return;
      }
      State next = state;
      next.inputs[wanted.number] = c;
      return found(next);
    }
    if (const std::uint32_t known = state.nodes[wanted.number]; known != kNothing) {
      if (find(applications_[known].outputs[wanted.output]) == c) found(state);
      return;
    }
    const auto members = members_.find(c);
    if (members == members_.end()) return;
    for (const auto& [a, output] : members->second)
      if (output == wanted.output) match_node(wanted.number, a, state, found);
  }

  void match_node(std::uint32_t node, std::uint32_t application, const State& state, const Continue& found) {
    const PatternNode& pattern = rule_->source.nodes[node];
    const Application& a = applications_[application];
    if (a.op != pattern.op || a.outputs.size() != pattern.outputs || a.operands.size() < pattern.inputs.size()) return;
    for (std::size_t k = pattern.inputs.size(); k < a.operands.size(); ++k)
      if (a.operands[k] != kNothing) return;
    for (std::size_t f = 0; f < pattern.attributes.size(); ++f)
      if (const Expression& e = pattern.attributes[f];
          e.kind == Expression::Kind::kValue && is_literal(e.value) && !std::holds_alternative<Index>(e.value) &&
          !std::holds_alternative<Indices>(e.value) && !(e.value == a.attributes[f]))
        return;
    State next = state;
    next.nodes[node] = application;
    match_operands(pattern, a, 0, next, found);
    if (pattern.op->commutative() && a.operands.size() >= 2 && a.operands[0] != a.operands[1]) {
      next.swapped[node] = true;
      match_operands(pattern, a, 0, next, found);
    }
  }
  static bool is_literal(const AttributeValue& value) {
    const Real* real = std::get_if<Real>(&value);
    return !real || real->symbol.empty();
  }

  void match_operands(const PatternNode& pattern, const Application& a, std::size_t k, const State& state,
                      const Continue& found) {
    if (k == pattern.inputs.size()) return found(state);
    const std::size_t node = static_cast<std::size_t>(&pattern - rule_->source.nodes.data());
    const std::size_t from = state.swapped[node] && k < 2 ? 1 - k : k;
    match(pattern.inputs[k], a.operands[from], state,
          [&](const State& next) { match_operands(pattern, a, k + 1, next, found); });
  }

  void apply(const Rule& rule, const State& state) {
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

  const RuleTheory::Impl& theory_;
  std::span<const std::size_t> without_;
  const Rule* rule_ = nullptr;  // that is being matched
  std::vector<ClassNumber> parent_;
  std::vector<TensorType> types_;
  std::vector<Application> applications_;
  std::unordered_multimap<std::uint64_t, std::uint32_t> known_;
  std::map<ClassNumber, std::vector<std::pair<std::uint32_t, std::uint32_t>>> members_;
  std::size_t merges_ = 0;
};

bool RuleTheory::derives(const Rule& rule, const RuleDerivationLimits& limits, std::span<const std::size_t> without) const {
  InstanceSampler sampler(rule, limits.seed);
  int seen = 0;
  for (; seen < limits.instances; ++seen) {
    const auto instance = sampler.sample();
    if (!instance) break;
    RuleGraph graph(*impl_, without);
    std::vector<ClassNumber> inputs;
    for (const TensorType& type : instance->input_types) inputs.push_back(graph.add_class(type));
    const std::vector<ClassNumber> left = graph.add(rule.source, inputs, instance->bindings);
    const std::vector<ClassNumber> right = graph.add(rule.target, inputs, instance->bindings);
    if (left.empty() || left.size() != right.size()) return false;
    const auto equal = [&] {
      for (std::size_t i = 0; i < left.size(); ++i)
        if (graph.find(left[i]) != graph.find(right[i])) return false;
      return true;
    };
    for (std::size_t round = 0; round < limits.rounds && !equal(); ++round)
      if (!graph.round(limits.applications)) break;
    if (!equal()) return false;
  }
  return seen > 0;
}

}  // namespace rewright::generator
