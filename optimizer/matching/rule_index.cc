// Rules prepared for matching, and the facts of a graph that matching needs.
#include <algorithm>

#include "optimizer/matching/match.h"
#include "rules/io.h"

namespace rewright::optimizer {

namespace {

bool allowed(const Rule& rule, const MatchOptions& options) {
  if (rule.proof.status == RuleStatus::kRefuted || rule.proof.status == RuleStatus::kUndecided) return false;
  if (options.for_training && !rule.for_training) return false;
  return static_cast<int>(rule.math) <= static_cast<int>(options.math);
}

bool has_root(const Rule& rule) {
  return !rule.source.outputs.empty() && rule.source.outputs[0].kind == PatternValue::Kind::kNode;
}

}  // namespace

RuleIndex::RuleIndex(std::vector<Rule> rules, const MatchOptions& options) {
  const auto data = std::make_shared<Data>();
  data->options = options;
  for (Rule& rule : rules)
    if (allowed(rule, options) && has_root(rule) && rule.source.nodes.size() <= 64) data->rules.push_back(std::move(rule));
  for (const Rule& rule : data->rules) data->hashes.push_back(hash(rule));
  for (const bool later : {false, true})
    for (std::uint32_t i = 0; i < data->rules.size(); ++i) {
      const Rule& rule = data->rules[i];
      if (rule.later != later) continue;
      Rooted& rooted = data->by_root[rule.source.nodes[rule.source.outputs[0].number].op];
      rooted.rules.push_back(i);
      rooted.first += !later;
    }
  data_ = data;
}

std::span<const std::uint32_t> RuleIndex::rooted_at(const Operator* op) const {
  const auto found = data_->by_root.find(op);
  if (found == data_->by_root.end()) return {};
  const std::span<const std::uint32_t> all = found->second.rules;
  return is_wide_ ? all : all.first(found->second.first);
}

std::optional<std::uint32_t> RuleIndex::find(std::string_view name) const {
  for (std::uint32_t i = 0; i < rules().size(); ++i)
    if (rules()[i].name == name) return i;
  return std::nullopt;
}

bool RuleIndex::has_later_rules() const {
  return std::any_of(rules().begin(), rules().end(), [](const Rule& rule) { return rule.later; });
}

RuleIndex RuleIndex::widened() const {
  RuleIndex result = *this;
  result.is_wide_ = true;
  return result;
}

MatchedGraph::MatchedGraph(const Graph& g, bool for_training)
    : graph(&g), producers(g.producers()), is_output(g.value_count()), first_user(g.value_count() + 1) {
  constant = for_training ? std::vector<bool>(g.value_count()) : g.constant_values();
  for (const GraphOutput& output : g.outputs()) is_output[output.value] = true;
  std::vector<std::int32_t> last(g.value_count(), -1);
  const auto for_each_use = [&](const auto& visit) {
    std::fill(last.begin(), last.end(), -1);
    for (std::size_t n = 0; n < g.nodes().size(); ++n) {
      for (const auto* ids : {&g.nodes()[n]->inputs, &g.nodes()[n]->parameters}) {
        for (const ValueId id : *ids) {
          if (id == kNoValue || last[id] == static_cast<std::int32_t>(n)) continue;
          last[id] = static_cast<std::int32_t>(n);
          visit(id, static_cast<std::int32_t>(n));
        }
      }
    }
  };
  for_each_use([&](ValueId id, std::int32_t) { ++first_user[id + 1]; });
  for (std::size_t id = 0; id < g.value_count(); ++id) first_user[id + 1] += first_user[id];
  user_list.resize(first_user.back());
  std::vector<std::uint32_t> next(first_user.begin(), first_user.end() - 1);
  for_each_use([&](ValueId id, std::int32_t user) { user_list[next[id]++] = user; });
}

}  // namespace rewright::optimizer
