#include "optimizer/search/search.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/parallel.h"
#include "graph/onnx/kept_calls.h"
#include "optimizer/matching/region.h"
#include "optimizer/search/backtrack.h"

namespace rewright::optimizer {

namespace {

// In a graph hardly larger than a region, a step towards a gain may cost a good part of the whole.
constexpr double kRegionSlack = 8;

// Cleaning up only goes downhill, and ends where no rewrite gains at once.
constexpr std::size_t kCleanUpPatience = 1;

// With the later rules, a region is finished after so many expansions without gain. At most this share of the graphs made
// before is made, but some in each region.
constexpr std::size_t kLaterPatience = 4;
constexpr double kLaterShare = 0.15;
constexpr std::size_t kFewestLater = 64;

// The strategies for a region. kBacktrackWidely: with the later rules, too.
enum class Way { kBacktrack, kSaturate, kBacktrackWidely };
constexpr std::size_t kWays = 3;

// The result of a search in a region.
struct Finding {
  std::optional<CertificateStep> step;  // without rewrites: no gain; nullopt: costs could not be measured
  std::size_t graphs = 0, e_nodes = 0;
  std::int64_t iterations = 0;  // of the simplex method
  StopReason saturation = StopReason::kSaturated;
  StopReason reason = StopReason::kDone;  // why the limits ended it
};

// Passes over the whole graph. Each pass first searches all regions separately, by all threads at once, with the costs known
// when the pass begins. Then it puts regions back one after the other, and searches those that need new measurements in their
// turn. So the result does not depend on the number of threads.
class Search {
 public:
  Search(const Graph& graph, const RuleIndex& rules, CostModel& costs, const SearchOptions& options)
      : rules_(rules),
        all_rules_(rules.widened()),
        costs_(costs),
        options_(options),
        limits_(options.deadline, options.memory, options.cancel),
        phase_(limits_),
        iterations_left_(options.iterations) {
    result_.graph = graph;
  }

  SearchResult run() {
    tidy_around_calls(result_.graph);
    kept_ = kept_calls(result_.graph);
    const MatchedGraph facts(result_.graph, rules_.options().for_training);
    costs_.learn(facts);
    result_.cost_before = result_.cost = costs_.measured_cost(facts).value_or(costs_.cost(facts));
    note_front(result_.graph, 0);
    for (int i = 0; i < std::max(1, options_.threads); ++i) forks_.push_back(std::make_unique<CostFork>(costs_));
    switch (options_.strategy) {
      case Strategy::kBacktrack:
        run_phase({{Way::kBacktrack}, options_.alpha, options_.patience, options_.max_passes}, options_.deadline);
        break;
      case Strategy::kSaturate:
        run_phase({{Way::kSaturate}, 1, 0, options_.max_passes}, options_.deadline);
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
  // The strategies for regions, and their patience.
  struct Phase {
    std::vector<Way> ways;  // the better one in each region counts
    double alpha;
    std::size_t patience;
    int max_passes;
  };

  // Immediate gains may prevent larger ones, and rewrites that saturation skips because its e-graph is full gain at once: so
  // each region uses the better strategy from the beginning.
  void run_auto() {
    const std::vector<Way> both{Way::kBacktrack, Way::kSaturate};
    run_phase({both, 1, kCleanUpPatience, 1}, share_of_time(options_.saturation_share));
    run_phase({{Way::kSaturate}, 1, 0, options_.max_passes}, share_of_time(options_.saturation_share));
    run_phase({both, options_.alpha, options_.patience, options_.max_passes}, options_.deadline);
    if (!rules_.has_later_rules()) return;
    later_budget_ = kLaterShare * static_cast<double>(result_.graphs_explored);
    run_phase({{Way::kBacktrackWidely}, options_.alpha, kLaterPatience, 1}, options_.deadline);
  }

  std::chrono::steady_clock::time_point share_of_time(double share) const {
    if (options_.deadline == std::chrono::steady_clock::time_point::max()) return options_.deadline;
    const auto now = std::chrono::steady_clock::now();
    return now + std::chrono::duration_cast<std::chrono::steady_clock::duration>(share * (options_.deadline - now));
  }

  void run_phase(const Phase& phase, std::chrono::steady_clock::time_point deadline) {
    if (limits_.reached()) return;
    if (phase_.reason() != StopReason::kDone) found(Way::kSaturate).clear();  // some are incomplete
    phase_ = Limits(deadline, options_.memory, options_.cancel);
    present_ = phase;
    // The result of backtracking depends on the phase's limits.
    for (const Way way : {Way::kBacktrack, Way::kBacktrackWidely}) found(way).clear();
    for (int pass = 1; pass <= phase.max_passes; ++pass) {
      const double before = result_.cost;
      run_pass(pass);
      if (result_.cost < before) note_milestone();
      if (phase_.reached()) break;
      // A pass with the other borders must have failed too.
      if (result_.cost > before * (1 - 1e-4) && pass >= 2) break;
    }
    cut_ = cut_ || phase_.reason() == StopReason::kTime;
    limits_.take(phase_.reason());
    limits_.reached();
  }

  // Records the current graph as a candidate to measure. The last one is the result itself, which is removed in the end.
  void note_milestone() {
    std::vector<Milestone>& list = result_.milestones;
    if (last_) list.insert(list.begin(), std::move(*last_));
    if (list.size() > kMilestones) list.pop_back();
    last_ = Milestone{result_.graph, result_.steps, result_.cost};
  }

  std::optional<double> measured_cost(const Graph& graph) {
    return costs_.measured_cost(MatchedGraph(graph, rules_.options().for_training));
  }

  std::vector<bool> constants() const {
    return rules_.options().for_training ? std::vector<bool>(result_.graph.value_count()) : result_.graph.constant_values();
  }

  using Positions = std::vector<std::uint32_t>;
  std::unordered_map<std::uint64_t, CertificateStep>& found(Way way) { return found_[static_cast<std::size_t>(way)]; }

  // Regions are processed from back to front, so that earlier nodes keep their positions when one is replaced. Nodes are
  // identified by address, since positions change.
  void run_pass(int pass) {
    const Graph as_split = result_.graph;  // keeps addresses valid
    std::vector<Positions> regions = split(as_split, constants(), options_.region_nodes, (pass + 1) % 2, kept_);
    std::reverse(regions.begin(), regions.end());
    ++passes_;
    pass_cost_ = result_.cost;
    result_.regions += regions.size();
    search_ahead(as_split, regions);
    present_changed();
    for (std::size_t i = 0; i < regions.size() && !out_of_time(); ++i) {
      std::vector<const Node*> nodes;
      for (const std::uint32_t position : regions[i]) nodes.push_back(as_split.nodes()[position].get());
      work_on(nodes);
      tell(0.5 + 0.5 * static_cast<double>(i + 1) / static_cast<double>(regions.size()));
    }
    costs_.clear();
  }

  // After the deadline nothing is put back. After a cancellation, or if memory runs out, results are still put back.
  bool out_of_time() { return limits_.reached() && limits_.reason() == StopReason::kTime; }

  // The deadline for searching ahead: the results must still be put back.
  std::chrono::steady_clock::time_point end_of_search_ahead() const {
    constexpr double kShare = 0.85;
    const auto now = std::chrono::steady_clock::now();
    if (phase_.deadline() <= now || phase_.deadline() == std::chrono::steady_clock::time_point::max()) return phase_.deadline();
    return now + std::chrono::duration_cast<std::chrono::steady_clock::duration>(kShare * (phase_.deadline() - now));
  }

  // Resets the lookup of positions and connections, which all regions share until the graph changes.
  void present_changed() {
    positions_.clear();
    for (std::uint32_t n = 0; n < result_.graph.nodes().size(); ++n) positions_.emplace(result_.graph.nodes()[n].get(), n);
    cutter_.emplace(result_.graph);
  }

  void tell(double fraction) const {
    if (options_.progress) options_.progress({fraction, passes_, result_.cost_before, result_.cost, result_.graphs_explored});
  }

  void search_ahead(const Graph& graph, const std::vector<Positions>& regions) {
    struct Task {
      Way way;
      std::uint64_t structure;
      Graph graph;
      std::optional<Finding> finding;
    };
    std::vector<Task> tasks;
    std::set<std::pair<Way, std::uint64_t>> listed;
    std::int64_t saturations = 0;
    const RegionCutter cutter(graph);
    for (const Positions& positions : regions) {
      if (out_of_time()) return;
      const Region region = cutter.extract(positions);
      const std::uint64_t structure = structure_hash(region.graph);
      bool reused = true;
      for (const Way way : present_.ways) {
        if (found(way).contains(structure) || !listed.emplace(way, structure).second) continue;
        reused = false;
        saturations += way == Way::kSaturate;
        tasks.push_back({way, structure, region.graph, std::nullopt});
      }
      result_.regions_reused += reused;
    }
    // A pass gets at most half of the remaining iterations, so that later passes have some; its regions get equal shares.
    iterations_ =
        std::min(options_.saturation.extraction.iterations, iterations_left_ / (2 * std::max<std::int64_t>(1, saturations)));
    later_graphs_ = std::max(
        kFewestLater, static_cast<std::size_t>(later_budget_ / static_cast<double>(std::max<std::size_t>(1, tasks.size()))));
    for (const auto& fork : forks_) fork->update();
    std::atomic<std::size_t> done = 0;
    const auto end = end_of_search_ahead();
    parallel(static_cast<int>(forks_.size()), tasks.size(), 1, [&](std::size_t number, std::size_t, std::size_t thread) {
      Limits limits(end, options_.memory, options_.cancel);
      if (limits.reached()) return;
      Task& task = tasks[number];
      forks_[thread]->run([&](CostModel& costs) {
        Finding finding = find(task.way, task.graph, costs, limits);
        if (finding.step) task.finding = std::move(finding);
      });
      ++done;
      if (thread == 0) tell(0.5 * static_cast<double>(done) / static_cast<double>(tasks.size()));
    });
    for (Task& task : tasks)
      if (task.finding) note(task.way, task.structure, std::move(*task.finding));
  }

  // The result for a region: depends only on its graph, the costs and the pass.
  Finding find(Way way, const Graph& graph, CostModel& costs, Limits& limits) const {
    Finding finding;
    if (way != Way::kSaturate) {
      const double slack = present_.alpha - 1;
      BacktrackOptions options{slack * pass_cost_, slack * kRegionSlack, present_.patience, options_.max_graphs};
      if (way == Way::kBacktrackWidely) options.max_graphs = std::min(options.max_graphs, later_graphs_);
      Backtracking found = backtrack(graph, way == Way::kBacktrackWidely ? all_rules_ : rules_, costs, options, limits);
      if (found.rewrites) finding.step.emplace().rewrites = std::move(*found.rewrites);
      finding.graphs = found.graphs;
    } else {
      ImproveOptions options = options_.saturation;
      options.extraction.iterations = iterations_;
      Improvement found = improve(graph, rules_, costs, options, limits);
      finding.step = std::move(found.step);
      finding.e_nodes = found.nodes;
      finding.iterations = found.iterations;
      finding.saturation = found.reason;
    }
    finding.reason = limits.reason();
    return finding;
  }

  const CertificateStep& note(Way way, std::uint64_t structure, Finding finding) {
    result_.graphs_explored += finding.graphs;
    result_.e_nodes = std::max(result_.e_nodes, finding.e_nodes);
    iterations_left_ -= std::min(iterations_left_, finding.iterations);
    cut_ = cut_ || finding.saturation == StopReason::kTime;
    phase_.take(finding.reason);
    // The reason that leaves most open, over all regions.
    const auto openness = [](StopReason reason) {
      return reason == StopReason::kSaturated ? 0 : reason == StopReason::kDone ? 1 : reason == StopReason::kNodes ? 2 : 3;
    };
    if (openness(finding.saturation) > openness(saturation_)) saturation_ = finding.saturation;
    return found(way)[structure] = std::move(finding.step).value_or(CertificateStep());
  }

  void work_on(const std::vector<const Node*>& nodes) {
    Positions positions;
    for (const Node* const node : nodes)
      if (const auto found = positions_.find(node); found != positions_.end()) positions.push_back(found->second);
    if (positions.empty()) return;
    std::sort(positions.begin(), positions.end());
    const Region region = cutter_->extract(positions);
    const std::uint64_t structure = structure_hash(region.graph);
    std::optional<Change> best;
    for (const Way way : present_.ways) {
      const auto known = found(way).find(structure);
      if (known != found(way).end()) {
        if (known->second.rewrites.empty() || consider(region, known->second, best)) continue;
      }
      // Its costs must be measured, or later regions changed, or its weights differ from those of equal regions, where that
      // matters.
      if (phase_.reached()) continue;
      const CertificateStep& step = note(way, structure, find(way, region.graph, costs_, phase_));
      if (!step.rewrites.empty()) consider(region, step, best);
      costs_.clear();
    }
    if (!best) return;
    result_.graph = std::move(best->graph);
    result_.cost = best->cost;
    best->step.region = positions;
    result_.steps.push_back(std::move(best->step));
    present_changed();
  }

  // The region's graph after a step; the step's names become those of this region.
  std::optional<Graph> after(const Graph& start, CertificateStep& step) {
    if (step.kind == CertificateStep::Kind::kSaturate) return apply_step(start, rules_, step);
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

  // The current graph with a region replaced.
  struct Change {
    Graph graph;
    double cost = 0;
    CertificateStep step;
  };

  // Applies a step to a region, and keeps the result if it is cheaper than the graph and than the best change so far. False if
  // the step does not fit.
  bool consider(const Region& region, CertificateStep step, std::optional<Change>& best) {
    const std::optional<Graph> graph = after(region.graph, step);
    if (!graph) return false;
    std::optional<Graph> whole = splice(result_.graph, region, *graph);
    if (!whole) return true;
    const std::optional<double> cost = measured_cost(*whole);
    if (!cost) return true;
    note_front(*whole, step.rewrites.size());
    if (*cost < (best ? best->cost : result_.cost) * (1 - 1e-9)) best = Change{std::move(*whole), *cost, std::move(step)};
    return true;
  }

  // Records a graph that is `more` rewrites away from the current one.
  void note_front(const Graph& graph, std::size_t more) {
    FrontPoint point{costs_.quantities(MatchedGraph(graph, rules_.options().for_training)), graph.nodes().size(), more};
    for (const CertificateStep& step : result_.steps) point.rewrites += step.rewrites.size();
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
  const RuleIndex all_rules_;  // the later ones, too
  CostModel& costs_;
  const SearchOptions& options_;
  Limits limits_, phase_;  // of the search, and of the current phase
  Phase present_{};
  StopReason saturation_ = StopReason::kSaturated;
  bool cut_ = false;  // a part of it ended by time
  int passes_ = 0;
  double pass_cost_ = 0;                               // of the graph when the pass began
  double later_budget_ = 0;                            // graphs made with later rules: in total
  std::size_t later_graphs_ = 0;                       // and for a region in this pass
  std::int64_t iterations_left_ = 0, iterations_ = 0;  // of the simplex method: in total, and for a region in this pass
  std::set<const Expansion*> kept_;                    // calls that no region contains
  SearchResult result_;
  std::optional<Milestone> last_;
  std::unordered_map<const Node*, std::uint32_t> positions_;                     // in the current graph
  std::optional<RegionCutter> cutter_;                                           // for the current graph
  std::array<std::unordered_map<std::uint64_t, CertificateStep>, kWays> found_;  // by the structure of regions
  std::vector<std::unique_ptr<CostFork>> forks_;                                 // of each thread
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

SearchResult search(const Graph& graph, const RuleIndex& rules, CostModel& costs, const SearchOptions& options) {
  return Search(graph, rules, costs, options).run();
}

}  // namespace rewright::optimizer
