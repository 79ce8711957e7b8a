#include "optimizer/search.h"

#include <algorithm>
#include <optional>
#include <queue>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "optimizer/region.h"

namespace rewright {

namespace {

// In a graph that is hardly larger than a region, a step that leads towards a gain may cost a good part of the whole.
constexpr double kRegionSlack = 8;

// How many steps without gain are followed up where they changed something, before other graphs get their turn.
constexpr int kFollowUps = 2;

// Cleaning up goes down from graph to graph, and ends where nothing gains at once.
constexpr std::size_t kCleanUpPatience = 1;

// A region may take so many times its share of the simplex iterations that are left: others take less, or are known already.
constexpr std::int64_t kRegionShares = 3;

// Nodes of graphs of which auto searches two ways.
constexpr std::size_t kSmallGraph = 300;

struct State {
  Graph graph;
  double cost;
  std::int32_t parent;
  Rewrite made_by;
};

// Searches one region.
class RegionSearch {
 public:
  RegionSearch(const RuleIndex& rules, CostModel& costs, const SearchOptions& options, Limits& limits)
      : rules_(rules), costs_(costs), options_(options), limits_(limits), matcher_(rules) {}

  // Rewrites from the region's graph to the best one found; none if there is nothing better.
  std::vector<Rewrite> run(const Graph& start, double whole_cost, double alpha, std::size_t patience) {
    const MatchedGraph facts(start, rules_.options().for_training);
    const MatchedGraph* const first = &facts;
    costs_.prepare({&first, 1});
    const double start_cost = costs_.cost(facts);
    const double slack = (alpha - 1) * std::max(whole_cost, kRegionSlack * start_cost);
    std::size_t best = 0, idle = 0;
    add({start, start_cost, -1, {}}, skeleton_hash(start, facts.constant));
    while (idle < patience && states_.size() < options_.max_graphs && !limits_.reached()) {
      // Steps that gained nothing yet are followed up at once, where they changed something; else the cheapest graph is next.
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
      expand(next.state, follows);
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
    return rewrites;
  }

  std::size_t graphs() const { return graphs_; }

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

  // The nodes of a state that its parent did not have.
  std::vector<bool> new_nodes(const State& state) const {
    std::unordered_set<const Node*> before;
    if (state.parent >= 0)
      for (const auto& node : states_[static_cast<std::size_t>(state.parent)].graph.nodes()) before.insert(node.get());
    std::vector<bool> result;
    for (const auto& node : state.graph.nodes()) result.push_back(!before.contains(node.get()));
    return result;
  }

  // Fills candidates_ with the graphs one rewrite away that were not seen before, costs included; if asked, only those by
  // rewrites of what the state's own rewrite changed.
  void expand(std::size_t number, bool only_changed) {
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
    costs_.prepare(pointers);
    if (limits_.reached()) return candidates_.clear();  // some were not measured: their costs tell nothing
    for (std::size_t i = 0; i < made.size(); ++i) candidates_[i].cost = costs_.cost(*made[i]);
  }

  const RuleIndex& rules_;
  CostModel& costs_;
  const SearchOptions& options_;
  Limits& limits_;
  Matcher matcher_;
  std::vector<State> states_;
  std::vector<Candidate> candidates_;
  struct FollowUp {
    std::size_t state;
    int left;  // how many more steps may follow
  };
  std::vector<FollowUp> follow_ups_;
  std::unordered_set<std::uint64_t> visited_;
  using Open = std::pair<double, std::size_t>;  // cost, state; of equal costs the older
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open_;
  std::size_t graphs_ = 0;
};

// Passes over the whole graph.
class Search {
 public:
  Search(const Graph& graph, const RuleIndex& rules, CostModel& costs, const SearchOptions& options)
      : rules_(rules),
        costs_(costs),
        options_(options),
        limits_(options.deadline, options.memory, options.cancel),
        phase_(limits_) {
    result_.graph = graph;
  }

  SearchResult run() {
    result_.graph.tidy();
    costs_.learn(MatchedGraph(result_.graph, rules_.options().for_training));
    result_.cost_before = result_.cost = cost_of(result_.graph);
    note_front(result_.graph, 0);
    switch (options_.strategy) {
      case Strategy::kBacktrack:
        run_phase({Strategy::kBacktrack, options_.alpha, options_.patience, options_.max_passes}, options_.deadline);
        break;
      case Strategy::kSaturate:
        run_phase({Strategy::kSaturate, 1, 0, options_.max_passes}, options_.deadline);
        break;
      case Strategy::kAuto:
        run_auto();
        break;
    }
    result_.stop_reason = limits_.reason();
    if (options_.strategy == Strategy::kSaturate && result_.stop_reason == StopReason::kDone) result_.stop_reason = saturation_;
    if (cut_ && result_.stop_reason != StopReason::kCancelled && result_.stop_reason != StopReason::kMemory)
      result_.stop_reason = StopReason::kTime;
    return std::move(result_);
  }

 private:
  // What is done with the regions, and for how long without gain.
  struct Phase {
    Strategy strategy;
    double alpha;
    std::size_t patience;
    int max_passes;
  };

  void run_auto() {
    const Phase backtracking{Strategy::kBacktrack, options_.alpha, options_.patience, options_.max_passes};
    const SearchResult given = result_;
    run_phase({Strategy::kBacktrack, 1, kCleanUpPatience, 1}, options_.deadline);
    run_phase({Strategy::kSaturate, 1, 0, 1}, share_of_time(options_.saturation_share));
    run_phase(backtracking, options_.deadline);
    if (given.graph.nodes().size() > kSmallGraph || limits_.reached()) return;
    // What gains at once may stand in the way of what gains more.
    SearchResult first = std::move(result_);
    result_ = given;
    result_.graphs_explored = first.graphs_explored;
    result_.regions = first.regions;
    result_.regions_reused = first.regions_reused;
    result_.e_nodes = first.e_nodes;
    result_.front = first.front;
    std::optional<Milestone> last = std::exchange(last_, std::nullopt);
    run_phase({Strategy::kSaturate, 1, 0, options_.max_passes}, options_.deadline);
    run_phase(backtracking, options_.deadline);
    if (result_.cost < first.cost * (1 - 1e-9)) return;
    result_.graph = std::move(first.graph);
    result_.steps = std::move(first.steps);
    result_.cost = first.cost;
    result_.milestones = std::move(first.milestones);
    last_ = std::move(last);
  }

  std::chrono::steady_clock::time_point share_of_time(double share) const {
    if (options_.deadline == std::chrono::steady_clock::time_point::max()) return options_.deadline;
    const auto now = std::chrono::steady_clock::now();
    return now + std::chrono::duration_cast<std::chrono::steady_clock::duration>(share * (options_.deadline - now));
  }

  void run_phase(const Phase& phase, std::chrono::steady_clock::time_point deadline) {
    if (limits_.reached()) return;
    phase_ = Limits(deadline, options_.memory, options_.cancel);
    present_ = phase;
    found_.clear();
    for (int pass = 1; pass <= phase.max_passes; ++pass) {
      const double before = result_.cost;
      run_pass(pass);
      if (result_.cost < before) note_milestone();
      if (phase_.reached()) break;
      // One pass with the other borders must have failed, too.
      if (result_.cost > before * (1 - 1e-4) && pass >= 2) break;
    }
    cut_ = cut_ || phase_.reason() == StopReason::kTime;
    limits_.take(phase_.reason());
    limits_.reached();
  }

  // The present graph is one to measure. The last one is the result itself, and not among them in the end.
  void note_milestone() {
    std::vector<Milestone>& list = result_.milestones;
    if (last_) list.insert(list.begin(), std::move(*last_));
    if (list.size() > kMilestones) list.pop_back();
    last_ = Milestone{result_.graph, result_.steps, result_.cost};
  }

  double cost_of(const Graph& graph) {
    const MatchedGraph facts(graph, rules_.options().for_training);
    const MatchedGraph* const one = &facts;
    costs_.prepare({&one, 1});
    return costs_.cost(facts);
  }

  std::vector<bool> constants() const {
    return rules_.options().for_training ? std::vector<bool>(result_.graph.value_count()) : result_.graph.constant_values();
  }

  // Regions are worked on from the back to the front: what comes before one keeps its place in the graph when it is replaced.
  // Nodes are found again by their address, since positions change.
  void run_pass(int pass) {
    std::vector<std::vector<const Node*>> regions;
    for (const auto& positions : split(result_.graph, constants(), options_.region_nodes, (pass + 1) % 2)) {
      regions.emplace_back();
      for (const std::uint32_t position : positions) regions.back().push_back(result_.graph.nodes()[position].get());
    }
    const Graph as_split = result_.graph;  // keeps the addresses valid
    ++passes_;
    iterations_left_ = options_.pass_iterations;
    for (std::size_t i = 0; i < regions.size() && !phase_.reached(); ++i) {
      regions_left_ = regions.size() - i;
      work_on(regions[regions.size() - 1 - i]);
      costs_.clear();
      if (options_.progress)
        options_.progress({static_cast<double>(i + 1) / static_cast<double>(regions.size()), passes_, result_.cost_before,
                           result_.cost, result_.graphs_explored});
    }
  }

  void work_on(const std::vector<const Node*>& nodes) {
    const std::unordered_set<const Node*> wanted(nodes.begin(), nodes.end());
    std::vector<std::uint32_t> positions;
    for (std::uint32_t n = 0; n < result_.graph.nodes().size(); ++n)
      if (wanted.contains(result_.graph.nodes()[n].get())) positions.push_back(n);
    if (positions.empty()) return;
    Region region = extract(result_.graph, positions);
    ++result_.regions;
    const std::uint64_t structure = structure_hash(region.graph);
    if (const auto known = found_.find(structure); known != found_.end()) {
      ++result_.regions_reused;
      if (known->second.rewrites.empty() || put_back(region, positions, known->second)) return;
    }
    Step step = present_.strategy == Strategy::kSaturate ? saturate(region.graph) : backtrack(region.graph);
    if (!step.rewrites.empty()) put_back(region, positions, step);
    if (!phase_.reached()) found_[structure] = std::move(step);
  }

  Step backtrack(const Graph& graph) {
    RegionSearch region_search(rules_, costs_, options_, phase_);
    Step step;
    step.rewrites = region_search.run(graph, result_.cost, present_.alpha, present_.patience);
    result_.graphs_explored += region_search.graphs();
    return step;
  }

  Step saturate(const Graph& graph) {
    ImproveOptions options = options_.saturation;
    const std::int64_t share = kRegionShares * iterations_left_ / static_cast<std::int64_t>(regions_left_);
    options.extraction.iterations = std::min(options.extraction.iterations, share);
    Improvement found = improve(graph, rules_, costs_, options, phase_);
    iterations_left_ -= std::min(iterations_left_, found.iterations);
    result_.e_nodes = std::max(result_.e_nodes, found.nodes);
    cut_ = cut_ || found.reason == StopReason::kTime;
    // Of all regions' reasons the one that leaves most open.
    const auto openness = [](StopReason reason) {
      return reason == StopReason::kSaturated ? 0 : reason == StopReason::kDone ? 1 : reason == StopReason::kNodes ? 2 : 3;
    };
    if (openness(found.reason) > openness(saturation_)) saturation_ = found.reason;
    return std::move(found.step);
  }

  // The region's graph after a step; the step's names become those of this region.
  std::optional<Graph> after(const Graph& start, Step& step) {
    if (step.kind == Step::Kind::kSaturate) return apply_step(start, rules_, step);
    Graph graph = start;
    Matcher matcher(rules_);
    for (Rewrite& rewrite : step.rewrites) {
      const std::optional<std::uint32_t> rule = rules_.find(rewrite.rule);
      const MatchedGraph facts(graph, rules_.options().for_training);
      const std::optional<Match> match = matcher.find_at(facts, *rule, rewrite.where, rewrite.swapped);
      if (!match) return std::nullopt;
      rewrite.names = names_at(graph, rewrite.where);
      std::optional<Graph> rewritten = apply(graph, rules_.rules()[*rule], *match);
      if (!rewritten) return std::nullopt;
      graph = std::move(*rewritten);
    }
    return graph;
  }

  // Does a step in a region and puts the region back, if that makes the graph cheaper.
  bool put_back(const Region& region, const std::vector<std::uint32_t>& positions, Step step) {
    const std::optional<Graph> graph = after(region.graph, step);
    std::optional<Graph> whole = graph ? splice(result_.graph, region, *graph) : std::nullopt;
    if (!whole) return false;
    const double cost = cost_of(*whole);
    note_front(*whole, step.rewrites.size());
    if (cost >= result_.cost * (1 - 1e-9)) return false;
    result_.graph = std::move(*whole);
    result_.cost = cost;
    step.region = positions;
    result_.steps.push_back(std::move(step));
    return true;
  }

  // A graph that `more` rewrites make of the present one.
  void note_front(const Graph& graph, std::size_t more) {
    FrontPoint point{costs_.quantities(MatchedGraph(graph, rules_.options().for_training)), graph.nodes().size(), more};
    for (const Step& step : result_.steps) point.rewrites += step.rewrites.size();
    const auto no_better = [](const FrontPoint& a, const FrontPoint& b) {
      return a.quantities.seconds >= b.quantities.seconds && a.quantities.peak_bytes >= b.quantities.peak_bytes;
    };
    std::vector<FrontPoint>& front = result_.front;
    if (std::any_of(front.begin(), front.end(), [&](const FrontPoint& other) { return no_better(point, other); })) return;
    std::erase_if(front, [&](const FrontPoint& other) { return no_better(other, point); });
    front.insert(
        std::upper_bound(front.begin(), front.end(), point,
                         [](const FrontPoint& a, const FrontPoint& b) { return a.quantities.seconds < b.quantities.seconds; }),
        point);
  }

  const RuleIndex& rules_;
  CostModel& costs_;
  const SearchOptions& options_;
  Limits limits_, phase_;  // of the whole, of the present phase
  Phase present_{};
  StopReason saturation_ = StopReason::kSaturated;
  bool cut_ = false;  // a part of it, by time
  int passes_ = 0;
  std::size_t regions_left_ = 1;      // of the present pass
  std::int64_t iterations_left_ = 0;  // the same, of the simplex method
  SearchResult result_;
  std::optional<Milestone> last_;
  std::unordered_map<std::uint64_t, Step> found_;
};

}  // namespace

std::string_view name(Strategy strategy) {
  switch (strategy) {
    case Strategy::kBacktrack:
      return "backtrack";
    case Strategy::kSaturate:
      return "saturate";
    case Strategy::kAuto:
      return "auto";
  }
  return "auto";
}

std::vector<std::string> names_at(const Graph& graph, std::span<const std::int64_t> where) {
  std::vector<std::string> names;
  for (const std::int64_t position : where) {
    if (position < 0) continue;
    const Node& node = *graph.nodes()[static_cast<std::size_t>(position)];
    std::string name = node.origin ? node.origin->name : "";
    for (const ValueId id : node.outputs)
      if (name.empty() && id != kNoValue) name = graph.value(id).name;
    if (!name.empty()) names.push_back(std::move(name));
  }
  return names;
}

SearchResult search(const Graph& graph, const RuleIndex& rules, CostModel& costs, const SearchOptions& options) {
  return Search(graph, rules, costs, options).run();
}

}  // namespace rewright
