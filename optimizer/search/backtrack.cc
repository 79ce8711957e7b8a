#include "optimizer/search/backtrack.h"

#include <algorithm>
#include <optional>
#include <queue>
#include <unordered_set>
#include <utility>

#include "optimizer/matching/region.h"

namespace rewright::optimizer {

namespace {

// Steps without gain that are followed up where they changed something, before other graphs get their turn.
constexpr int kFollowUps = 2;

struct State {
  Graph graph;
  double cost;
  std::int32_t parent;
  Rewrite made_by;
};

class RegionSearch {
 public:
  RegionSearch(const RuleIndex& rules, CostModel& costs, const BacktrackOptions& options, Limits& limits)
      : rules_(rules), costs_(costs), options_(options), limits_(limits), matcher_(rules) {}

  Backtracking run(const Graph& start) {
    const MatchedGraph facts(start, rules_.options().for_training);
    const std::optional<double> start_cost = costs_.measured_cost(facts);
    if (!start_cost) return {};
    const double slack = std::max(options_.slack, options_.region_slack * *start_cost);
    std::size_t best = 0, idle = 0;
    add({start, *start_cost, -1, {}}, skeleton_hash(start, facts.constant));
    while (idle < options_.patience && states_.size() < options_.max_graphs && !limits_.reached()) {
      // Steps without gain so far are followed up at once where they changed something; otherwise the cheapest graph is next.
      FollowUp next{0, kFollowUps};
      const bool follows = !follow_ups_.empty();
      if (follows) {
        next = follow_ups_.back();
        follow_ups_.pop_back();
      } else if (!open_.empty()) {
        next.state = open_.top().second;
        open_.pop();
        ++idle;
      } else {
        break;
      }
      if (states_[next.state].cost > states_[best].cost + slack) {
        if (follows) continue;
        break;
      }
      if (!expand(next.state, follows)) return {std::nullopt, graphs_};
      for (Candidate& candidate : candidates_) {
        if (candidate.cost > states_[best].cost + slack) continue;
        add({std::move(candidate.graph), candidate.cost, static_cast<std::int32_t>(next.state), std::move(candidate.made_by)},
            candidate.hash);
        const std::size_t added = states_.size() - 1;
        if (states_[added].cost < states_[best].cost * (1 - 1e-9)) {
          best = added;
          idle = 0;
        } else if (next.left > 0 && (follows || states_[added].cost > states_[next.state].cost * (1 + 1e-4))) {
          follow_ups_.push_back({added, next.left - 1});
        }
      }
    }
    std::vector<Rewrite> rewrites;
    for (auto i = static_cast<std::int32_t>(best); i > 0; i = states_[static_cast<std::size_t>(i)].parent)
      rewrites.push_back(states_[static_cast<std::size_t>(i)].made_by);
    std::reverse(rewrites.begin(), rewrites.end());
    return {std::move(rewrites), graphs_};
  }

 private:
  struct Candidate {
    Graph graph;
    double cost;
    std::uint64_t hash;
    Rewrite made_by;
  };

  void add(State state, std::uint64_t hash) {
    visited_.insert(hash);
    open_.emplace(state.cost, states_.size());
    states_.push_back(std::move(state));
  }

  // The nodes of a state that its parent lacked.
  std::vector<bool> new_nodes(const State& state) const {
    std::unordered_set<const Node*> before;
    if (state.parent >= 0)
      for (const auto& node : states_[static_cast<std::size_t>(state.parent)].graph.nodes()) before.insert(node.get());
    std::vector<bool> result;
    for (const auto& node : state.graph.nodes()) result.push_back(!before.contains(node.get()));
    return result;
  }

  // Fills candidates_ with new graphs one rewrite away, and their costs; with `only_changed`, only by rewrites of nodes that
  // the state's own rewrite created. False if costs could not be measured.
  bool expand(std::size_t number, bool only_changed) {
    candidates_.clear();
    const Graph graph = states_[number].graph;
    const std::vector<bool> changed = new_nodes(states_[number]);
    const MatchedGraph facts(graph, rules_.options().for_training);
    std::vector<std::unique_ptr<MatchedGraph>> made;
    for (const Match& match : matcher_.find(facts)) {
      if (only_changed && std::none_of(match.where.begin(), match.where.end(), [&](std::int64_t position) {
            return position >= 0 && changed[static_cast<std::size_t>(position)];
          }))
        continue;
      const Rule& rule = rules_.rules()[match.rule];
      std::optional<Graph> rewritten = apply(graph, rule, match);
      if (!rewritten) continue;
      ++graphs_;
      auto rewritten_facts = std::make_unique<MatchedGraph>(*rewritten, rules_.options().for_training);
      const std::uint64_t hash = skeleton_hash(*rewritten, rewritten_facts->constant);
      if (!visited_.insert(hash).second) continue;
      Rewrite made_by{rule.name, rules_.hashes()[match.rule], match.where, match.swapped, names_at(graph, match.where)};
      candidates_.push_back({std::move(*rewritten), 0, hash, std::move(made_by)});
      made.push_back(std::move(rewritten_facts));
    }
    std::vector<const MatchedGraph*> pointers;
    for (std::size_t i = 0; i < made.size(); ++i) {
      made[i]->graph = &candidates_[i].graph;
      pointers.push_back(made[i].get());
    }
    if (!costs_.prepare(pointers)) return false;
    if (limits_.reached()) candidates_.clear();
    for (std::size_t i = 0; i < candidates_.size(); ++i) candidates_[i].cost = costs_.cost(*made[i]);
    return true;
  }

  const RuleIndex& rules_;
  CostModel& costs_;
  const BacktrackOptions& options_;
  Limits& limits_;
  Matcher matcher_;
  std::vector<State> states_;
  std::vector<Candidate> candidates_;
  struct FollowUp {
    std::size_t state;
    int left;  // further steps allowed
  };
  std::vector<FollowUp> follow_ups_;
  std::unordered_set<std::uint64_t> visited_;
  using Open = std::pair<double, std::size_t>;  // cost, state; among equal costs the oldest
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open_;
  std::size_t graphs_ = 0;
};

}  // namespace

Backtracking backtrack(const Graph& region, const RuleIndex& rules, CostModel& costs, const BacktrackOptions& options,
                       Limits& limits) {
  return RegionSearch(rules, costs, options, limits).run(region);
}

}  // namespace rewright::optimizer
