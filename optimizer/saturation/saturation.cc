#include "optimizer/saturation/saturation.h"

#include <algorithm>

namespace rewright::optimizer {

namespace {

constexpr std::uint32_t kOfGraph = ~std::uint32_t{0};

constexpr std::size_t kMatchesPerNode = 2;

// Nodes added by a rule minus those it matches. Shrinking rules go first, since the e-graph may become full.
std::ptrdiff_t growth(const Rule& rule) {
  return static_cast<std::ptrdiff_t>(rule.target.nodes.size()) - static_cast<std::ptrdiff_t>(rule.source.nodes.size());
}

}  // namespace

Saturation::Saturation(const Graph& graph, const RuleIndex& rules, const SaturationOptions& options)
    : rules_(rules),
      options_(options),
      graph_(graph, rules.options().for_training),
      matcher_(graph_, rules),
      creators_(graph_.node_count(), kOfGraph),
      schedules_(rules.rules().size()) {
  graph_.rebuild();
}

std::optional<std::uint32_t> Saturation::creator(ENodeId id) const {
  return creators_[id] == kOfGraph ? std::nullopt : std::optional(creators_[id]);
}

// Matches of rules that are not banned, grouped by rule. `left_out`: there were more.
std::vector<EMatch> Saturation::find_matches(bool all, bool& left_out, Limits& limits) {
  std::vector<std::vector<EMatch>> found(rules_.rules().size());
  // Most matches add an e-node or two; matches that would not fit are not searched for.
  const std::size_t room = kMatchesPerNode * (options_.nodes - std::min(options_.nodes, graph_.live_count())) + kMatchesPerNode;
  std::size_t total = 0;
  for (ENodeId id = 0; id < graph_.node_count() && !limits.reached(); ++id) {
    if (!graph_.node(id).live || !graph_.node(id).op) continue;
    for (const std::uint32_t rule : rules_.rooted_at(graph_.node(id).op)) {
      if (rules_.rules()[rule].source.outputs.size() > 1 && iteration_ >= options_.joint_iterations) continue;
      Schedule& schedule = schedules_[rule];
      if (!all && schedule.banned_until > iteration_) {
        left_out = true;
        continue;
      }
      const std::size_t most = all ? options_.nodes : options_.matches << std::min<std::size_t>(schedule.times, 20);
      if (found[rule].size() >= most) continue;
      if (total >= room) {
        left_out = true;
        continue;
      }
      matcher_.find(rule, id, [&](const EMatch& match) {
        const std::optional<std::uint64_t> skeleton = matcher_.skeleton(match);
        if (!skeleton || seen_.contains(*skeleton)) return true;
        found[rule].push_back(match);
        ++total;
        if (found[rule].size() < most) return total < room;
        left_out = true;
        if (!all) schedule.banned_until = iteration_ + 1 + (options_.ban << std::min<std::size_t>(schedule.times++, 20));
        return false;
      });
    }
  }
  std::vector<std::uint32_t> order(found.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return growth(rules_.rules()[a]) < growth(rules_.rules()[b]); });
  std::vector<EMatch> matches;
  for (const std::uint32_t rule : order) std::move(found[rule].begin(), found[rule].end(), std::back_inserter(matches));
  return matches;
}

bool Saturation::apply(const EMatch& match) {
  const std::optional<std::uint64_t> skeleton = matcher_.skeleton(match);
  if (!skeleton || !seen_.insert(*skeleton).second) return false;
  const auto number = static_cast<std::uint32_t>(applications_.size());
  std::optional<EMatcher::Made> made = matcher_.apply(match, number);
  if (!made) return false;
  creators_.resize(graph_.node_count(), number);
  applications_.push_back({match, std::move(*made)});
  return true;
}

StopReason Saturation::run(Limits& limits) {
  for (std::size_t i = 0; i < options_.iterations; ++i, ++iteration_) {
    bool left_out = false, grown = false;
    std::vector<EMatch> matches = find_matches(false, left_out, limits);
    if (matches.empty() && left_out) matches = find_matches(true, left_out = false, limits);
    for (const EMatch& match : matches) {
      if (limits.reached()) break;
      grown = apply(match) || grown;
      if (graph_.live_count() >= options_.nodes) break;
    }
    graph_.rebuild();
    if (limits.reached()) return limits.reason();
    if (graph_.live_count() >= options_.nodes) return StopReason::kNodes;
    if (!grown && !left_out) return StopReason::kSaturated;
  }
  return StopReason::kDone;
}

}  // namespace rewright::optimizer
