#include "generator/pruning/rule_theory.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "generator/pruning/rule_graph.h"
#include "rules/instance.h"

namespace rewright::generator {

namespace {

// The rule from right to left; nullopt if it cannot be applied so.
std::optional<Rule> reversed(Rule rule) {
  std::swap(rule.source, rule.target);
  try {
    check_rule(rule);
  } catch (const Error&) {
    return std::nullopt;
  }
  return rule;
}

}  // namespace

struct RuleTheory::Impl {
  std::vector<std::unique_ptr<DirectedRule>> directed;
  std::vector<bool> active;
};

RuleTheory::RuleTheory() : impl_(std::make_unique<Impl>()) {}
RuleTheory::~RuleTheory() = default;
RuleTheory::RuleTheory(RuleTheory&&) noexcept = default;

std::size_t RuleTheory::add(const Rule& rule) {
  const std::size_t number = impl_->active.size();
  impl_->active.push_back(true);
  const auto insert = [&](Rule r) {
    impl_->directed.push_back(std::make_unique<DirectedRule>(DirectedRule{std::move(r), number}));
  };
  insert(rule);
  if (auto back = reversed(rule)) insert(std::move(*back));
  return number;
}

void RuleTheory::set_active(std::size_t number, bool active) { impl_->active[number] = active; }

bool RuleTheory::derives(const Rule& rule, const RuleDerivationLimits& limits, std::span<const std::size_t> without) const {
  std::vector<const DirectedRule*> rules;
  for (const auto& directed : impl_->directed)
    if (impl_->active[directed->number] && std::find(without.begin(), without.end(), directed->number) == without.end())
      rules.push_back(directed.get());
  InstanceSampler sampler(rule, limits.seed);
  int seen = 0;
  for (; seen < limits.instances; ++seen) {
    const auto instance = sampler.sample();
    if (!instance) break;
    RuleGraph graph;
    std::vector<RuleGraph::ClassNumber> inputs;
    for (const TensorType& type : instance->input_types) inputs.push_back(graph.add_class(type));
    const std::vector<RuleGraph::ClassNumber> left = graph.add(rule.source, inputs, instance->bindings);
    const std::vector<RuleGraph::ClassNumber> right = graph.add(rule.target, inputs, instance->bindings);
    if (left.empty() || left.size() != right.size()) return false;
    const auto equal = [&] {
      for (std::size_t i = 0; i < left.size(); ++i)
        if (graph.find(left[i]) != graph.find(right[i])) return false;
      return true;
    };
    for (std::size_t round = 0; round < limits.rounds && !equal(); ++round)
      if (!graph.round(rules, limits.applications)) break;
    if (!equal()) return false;
  }
  return seen > 0;
}

}  // namespace rewright::generator
