#include "runtime/planned/planner.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "plans/groups/list_schedule.h"
#include "plans/groups/refine.h"
#include "plans/groups/step.h"
#include "plans/partition/moved_shares.h"
#include "runtime/planned/pipeline_planner.h"
#include "runtime/planned/plan_simulation.h"
#include "runtime/planned/planned_links.h"
#include "runtime/planned/recomputation_chooser.h"
#include "runtime/planned/strategy_levels.h"

namespace rewright::runtime {

namespace {

using plans::ChoiceFinder, plans::CutFinder, plans::GroupGraph, plans::Machine, plans::NodeChoice, plans::OperandTypes;
using plans::OperatorSeconds, plans::Partition, plans::PartitionOptions, plans::Plan, plans::PlanPrediction, plans::Simulation;

std::vector<double> node_seconds(const Partition& partition) {
  std::vector<double> result;
  for (const NodeChoice& c : partition.nodes) result.push_back(c.seconds);
  return result;
}

// A second search counts exchanges so, of so many strategies.
constexpr double kExchangingBeside = 0.3;
constexpr std::size_t kTriedAgain = 2;
// The most seconds of a partition that is found quickly, in any budget, so that a larger one begins as a smaller one does; the
// least for an integer program, and among so many strategies what is left is shared.
constexpr double kQuick = 0.25, kLeastProgram = 0.5;
// So many strategies, which people choose by hand, are tried in any case while a plan can still be proved in the budget.
constexpr std::size_t kByHand = 4;
constexpr double kStillProved = 0.75;  // of the budget
constexpr std::size_t kSharers = 4;
constexpr double kRounding = 1e-9;  // of a step

constexpr int kRecomputingAttempts = 4;

// A partition's share of the search.
struct Effort {
  double seconds = 0;
  double exchanging = 1;  // a second of exchanging counts so beside one of computing: exchanges run beside it, more or less
  bool quick = false;     // PartitionOptions
  void set(PartitionOptions& options, double share) const {
    options.seconds = quick ? seconds : share * seconds, options.exchanging = exchanging, options.quick = quick;
  }
};

struct Candidate {
  Plan plan;
  bool proved_best = false;
  std::size_t number = 0;  // in Planner::found_
};

// Plans for one machine and one model.
class Planner {
 public:
  Planner(const PlannedGraph& planned, const Machine& machine, PlanChoices& choices)
      : planned_(planned), machine_(machine), choices_(choices) {}

  std::optional<Candidate> one_level(const std::string& strategy, const Effort& effort) {
    PartitionOptions options;
    options.processes = static_cast<std::int64_t>(machine_.devices());
    effort.set(options, 1);
    set_links(machine_, 1, machine_.devices(), options);
    set_ways(options, 1, false);
    options.memory = machine_.memory();
    options.allowed = allowed(strategy);
    options.replaced = planned_.replaced;
    auto result = fitting(planned_.graph, choices_.among(machine_.devices(), 1, false), options, nullptr, 1);
    if (result) result->plan.strategy = strategy;
    return result;
  }

  std::optional<Candidate> two_levels(const Levels& levels, std::size_t groups, const Effort& effort) {
    const Outer& level = outer_level(levels.outer, groups, effort);
    if (!level.partition.found) return nothing(level.partition);
    PartitionOptions within;
    within.processes = static_cast<std::int64_t>(machine_.devices() / groups);
    effort.set(within, 0.5);
    set_links(machine_, 1, machine_.devices() / groups, within);
    set_ways(within, groups, false);
    within.memory = machine_.memory();
    within.allowed = holdings_of(levels.inner, level.work);
    within.replaced = level.work.replaced;
    auto inside = fitting(level.group.graph, *level.choices, within, &level.group, groups);
    return inside ? std::optional(with_levels(level, std::move(*inside), levels.outer + "+" + levels.inner)) : std::nullopt;
  }

  // A plan that fits, changed where the simulated step gets shorter (plans/groups/refine.h). `to_any`: of one level, to plans
  // of all strategies.
  Candidate refined(Candidate from, const plans::RefineLimits& limits, bool to_any) {
    Found& found = found_.at(from.number);
    const auto allowed = found.level ? found.options.allowed : this->allowed(from.plan.strategy);
    if (to_any && !found.level) found.options.allowed = this->allowed("auto");
    const Work work = found.work();
    plans::StepGroups groups;
    if (work.group) groups = {found.groups, work.group->exchanges, pairs(found.groups, true)};
    const plans::Refined better = refine(machine_, work.graph, found.partition, *found.choices, found.options, groups, limits);
    from.proved_best = from.proved_best && !better.timed_out;
    if (!(better.seconds < from.plan.predicted->seconds)) return from;
    found.partition = better.partition;  // another refinement goes on from here
    Candidate result = simulated(work, better.partition, found.options, found.groups);
    result.plan.recomputed = from.plan.within ? from.plan.within->recomputed : from.plan.recomputed;
    result.proved_best = from.proved_best, result.number = from.number;
    if (!found.level) {
      result.plan.strategy = from.plan.strategy;
      for (ValueId v = 0; v < work.graph.value_count(); ++v)
        if (work.graph.is_input(v) || work.graph.is_constant(v))
          if (!allowed(v, better.partition.given[v])) result.plan.strategy = "auto";
      return result;
    }
    return with_levels(*found.level, std::move(result), from.plan.strategy);
  }

  // No plan takes less. A step takes at least the longest of its computing, its exchanges and its chains of both, and that is
  // at least what the program says for the machine's nodes, whatever happens inside of them: devices share a node's work
  // evenly, and messages between nodes are as fast as the fastest. On one node the same for its devices. Exchanges of two
  // levels have other latencies than those of one, and some go in pairs: then none counts.
  double lower_bound(double seconds, bool has_levels) {
    const std::size_t groups = machine_.nodes() > 1 ? machine_.nodes() : machine_.devices();
    const std::size_t size = machine_.devices() / groups;
    ChoiceFinder& choices = choices_.among(groups, size, false, has_levels);
    PartitionOptions options;
    options.processes = static_cast<std::int64_t>(groups);
    set_links(machine_, size, groups, options, true);
    if (has_levels || distribution::can_pair(groups)) options.latency = 0;
    if (has_levels) options.exchange_seconds = 0;
    options.replaced = planned_.replaced;
    options.seconds = seconds, options.nodes = 1;
    options.overlapped = true;
    options.beside = machine_.exchanges_beside() || size > 1;  // one of a node's devices may exchange, and others compute
    double computing = 0;                                      // alone
    const auto nodes = planned_.graph.nodes();
    const std::vector<double> moved = plans::moved_shares(planned_.graph);
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      double least = std::numeric_limits<double>::infinity();
      for (const NodeChoice& c : choices.of(planned_.graph, *nodes[n], moved[n])) least = std::min(least, c.seconds);
      computing += least;
    }
    return std::max(computing, partition(planned_.graph, choices, options).bound);
  }

  // Did a search for a partition end for lack of time, without any?
  bool ran_out_of_time() const { return ran_out_of_time_; }

 private:
  // The holdings that a plan of one level may choose. One process holds all values whole, by any strategy.
  std::function<bool(ValueId, const plans::Holding&)> allowed(const std::string& strategy) const {
    if (machine_.devices() > 1) return holdings_of(strategy, planned_);
    return [](ValueId, const plans::Holding& h) { return h.kind == plans::Holding::Kind::kWhole; };
  }

  std::nullopt_t nothing(const Partition& partition) {
    ran_out_of_time_ = ran_out_of_time_ || partition.timed_out;
    return std::nullopt;
  }

  // A partition among groups, and what a group computes.
  struct Outer {
    PartitionOptions options;
    Partition partition;
    GroupGraph group;
    PlannedGraph work;
    std::unique_ptr<ChoiceFinder> choices;  // of `work`
  };

  // The graph that is cut last: the model's, or a group's.
  struct Work {
    const Graph& graph;
    const GroupGraph* group;  // null: one level
  };

  // The parts of a candidate, to refine it.
  struct Found {
    const Graph* graph = nullptr;
    const GroupGraph* group = nullptr;
    const Outer* level = nullptr;  // of two levels
    std::size_t groups = 1;
    ChoiceFinder* choices = nullptr;
    PartitionOptions options;
    Partition partition;
    std::shared_ptr<const plans::RecomputedGroup> again;  // in place of the graph; null: nothing is computed again

    Work work() const {
      if (!again) return {*graph, group};
      return {again->group.graph, group ? &again->group : nullptr};
    }
  };

  Candidate with_levels(const Outer& level, Candidate inside, const std::string& strategy) {
    Candidate result{make_plan(planned_.graph, level.partition, level.options),
                     inside.proved_best && level.partition.proved_best, inside.number};
    found_.at(inside.number).level = &level;
    result.plan.strategy = strategy;
    result.plan.predicted = std::move(inside.plan.predicted), inside.plan.predicted.reset();
    result.plan.within = std::make_shared<const Plan>(std::move(inside.plan));
    return result;
  }

  const Outer& outer_level(const std::string& strategy, std::size_t groups, const Effort& effort) {
    const auto [at, is_new] = outer_.try_emplace({strategy, groups, effort.exchanging, effort.quick});
    Outer& level = at->second;
    if (!is_new) return level;
    const std::size_t size = machine_.devices() / groups;
    PartitionOptions& between = level.options;
    between.processes = static_cast<std::int64_t>(groups), between.alike = true;
    effort.set(between, 0.5);
    set_links(machine_, size, groups, between);
    set_ways(between, groups, true);
    between.memory = machine_.memory() * static_cast<double>(size);
    between.allowed = holdings_of(strategy, planned_);
    between.replaced = planned_.replaced;
    level.partition = partition(planned_.graph, choices_.among(groups, size, size > 1), between);
    if (!level.partition.found) return level;
    level.group = group_graph(planned_.graph, level.partition, between, 0);
    level.work = planned_group(planned_, level.group);
    level.choices = std::make_unique<ChoiceFinder>(static_cast<std::int64_t>(size), choices_.seconds(), choices_.cuts());
    for (const auto& [n, exchange] : level.group.exchanges) {
      const Node& node = *level.group.graph.nodes()[n];
      const TensorType& type = level.group.graph.value(node.outputs[0]).type;
      auto ways = choices_between(exchange, type, static_cast<std::int64_t>(size), between);
      for (NodeChoice& way : ways) way.seconds *= effort.exchanging;
      level.choices->add_opaque(node.opaque_reason, std::move(ways));
    }
    return level;
  }

  // The exchanges within groups, or between them, that go in pairs.
  const distribution::PairLimits& pairs(std::size_t groups, bool across) {
    const auto [at, is_new] = pairs_.try_emplace({groups, across});
    if (is_new) at->second = pairs_among(machine_, groups, across);
    return at->second;
  }

  // For what is exchanged within groups, or between them. After set_links().
  void set_ways(PartitionOptions& options, std::size_t groups, bool across) {
    options.pairs = pairs(groups, across);
    const auto [at, is_new] = all_to_all_.try_emplace({groups, across});
    if (is_new) at->second = all_to_all_share(machine_, groups, across, options);
    options.all_to_all = at->second;
  }

  Candidate simulated(const Work& work, const Partition& found, const PartitionOptions& options, std::size_t groups) {
    Simulation simulation(machine_);
    simulate_partition(simulation, work.graph, found, options, work.group, groups, pairs(groups, true));
    Candidate result{make_plan(work.graph, found, options), found.proved_best};
    result.plan.predicted = prediction_of(simulation);
    result.plan.predicted->node_seconds = node_seconds(found);
    return result;
  }

  static std::vector<std::size_t> listed(const Work& work, const Found& found) {
    static const std::map<std::size_t, plans::BetweenGroups> kNone;
    return list_schedule(work.graph, found.partition, exchanges_of(work.graph, found.partition, found.options), found.options,
                         work.group ? work.group->exchanges : kNone);
  }

  bool fits(const Candidate& candidate) const { return candidate.plan.predicted->most_bytes() <= machine_.memory(); }

  // Simulates a partition in the order of a list schedule, or level by level where memory needs that. Keeps it as the `best` if
  // it is: one that fits, and takes less time; as long as none fits, one that needs less memory.
  Candidate tried(Found found, const std::vector<Recomputation>& recomputed, std::optional<Candidate>& best) {
    const Work work = found.work();
    found.partition.sequence = listed(work, found);
    std::optional<Candidate> candidate = simulated(work, found.partition, found.options, found.groups);
    if (!fits(*candidate)) {
      found.partition.sequence.clear();
      candidate = simulated(work, found.partition, found.options, found.groups);
    }
    candidate->plan.recomputed = recomputed;
    const plans::PlanPrediction& now = *candidate->plan.predicted;
    const bool is_best = !best || (fits(*best) ? fits(*candidate) && now.seconds < best->plan.predicted->seconds
                                               : now.most_bytes() < best->plan.predicted->most_bytes());
    if (is_best) {
      candidate->number = found_.size();
      found_.push_back(std::move(found));
      best = candidate;
    }
    return *std::move(candidate);
  }

  // The program limits what is given. If what is computed does not fit beside it, given values get less, or some of it is
  // computed again where it is read: the faster one of both.
  std::optional<Candidate> fitting(const Graph& graph, ChoiceFinder& choices, PartitionOptions options, const GroupGraph* group,
                                   std::size_t groups) {
    std::optional<Candidate> best;
    for (int attempt = 0; attempt < 2; ++attempt) {
      const Partition partition = plans::partition(graph, choices, options);
      if (!partition.found) {
        nothing(partition);
        break;
      }
      const Found found{&graph, group, nullptr, groups, &choices, options, partition, nullptr};
      const Candidate candidate = tried(found, {}, best);
      if (fits(candidate)) break;
      recompute(found, candidate, best);
      options.memory =
          std::min(options.memory, partition.given_bytes) - (candidate.plan.predicted->most_bytes() - machine_.memory());
      if (options.memory <= 0) break;
    }
    return best;
  }

  // Chooses what to compute again, so that a partition fits. What the choice expects of memory is corrected by the simulation.
  void recompute(const Found& found, const Candidate& too_large, std::optional<Candidate>& best) {
    if (planned_.replaced.empty()) return;  // no backward pass
    const Work work = found.work();
    const RecomputationChooser chooser(work.graph, found.partition, found.options.processes);
    double bytes = chooser.bytes(), most = too_large.plan.predicted->most_bytes();
    const auto begin = std::chrono::steady_clock::now();
    const double seconds = found.options.seconds / 2;
    for (int attempt = 0; attempt < kRecomputingAttempts && bytes > 0; ++attempt) {
      const double left = seconds - std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      bytes -= 1.02 * (most - machine_.memory());
      if (left <= 0) return;
      auto choice = chooser.choose(bytes, left / 2);
      const bool is_least = !choice;
      if (is_least && attempt == 0) choice = chooser.choose_least(left / 2);
      if (!choice) return;
      Found again = found;
      try {
        again.again = std::make_shared<const plans::RecomputedGroup>(
            with_recomputations(work.group ? *work.group : GroupGraph{work.graph, {}, {}, {}, {}}, *choice));
      } catch (const Error& e) {
        if (e.code() != ErrorCode::kBadInput) throw;
        return;  // the graph has another order than is expected of a step
      }
      again.partition = with_copies(found.partition, *again.again);
      const Candidate candidate = tried(std::move(again), *choice, best);
      if (fits(candidate) || is_least) return;
      most = candidate.plan.predicted->most_bytes();
    }
  }

  const PlannedGraph& planned_;
  const Machine& machine_;
  PlanChoices& choices_;
  std::map<std::tuple<std::string, std::size_t, double, bool>, Outer> outer_;  // by strategy, number of groups and effort
  std::map<std::pair<std::size_t, bool>, distribution::PairLimits> pairs_;     // by number of groups; between them
  std::map<std::pair<std::size_t, bool>, double> all_to_all_;                  // as well; all_to_all_share()
  std::vector<Found> found_;
  bool ran_out_of_time_ = false;
};

// The plans found so far, and what is tried next.
class Search {
 public:
  Search(const PlannedGraph& planned, const Machine& machine, const PlanSearch& search, PlanChoices& choices)
      : planner_(planned, machine, choices),
        machine_(machine),
        search_(search),
        groups_(search.groups > 0 ? search.groups : machine.nodes()) {
    if (machine.devices() % groups_ != 0)
      throw Error(ErrorCode::kUsage,
                  std::to_string(machine.devices()) + " devices are no " + std::to_string(groups_) + " groups", "--groups");
    const bool has_images = std::any_of(planned.data.begin(), planned.data.end(),
                                        [&](ValueId v) { return planned.graph.value(v).type.rank() >= 4; });
    wanted_ = wanted_levels(search.strategy, has_groups(), has_images);
  }

  double elapsed() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }

  // Shares of the time that is given: by when each part of the search ends.
  FoundPlan run() {
    try_quickly(0.4 * search_.seconds);
    refine_best(0.5 * search_.seconds, search_.seed);
    try_all(0.65 * search_.seconds);
    try_again(0.72 * search_.seconds);
    const double bound =
        planner_.lower_bound(std::clamp(0.8 * search_.seconds - elapsed(), 0.0, search_.seconds / 8), has_groups());
    refine_best(0.9 * search_.seconds, search_.seed + 1);
    if (!best_) refuse();
    result_.plan = std::move(best_->plan);
    PlanPrediction& found = *result_.plan.predicted;  // of the same times, added in another order
    found.lower_bound = bound <= found.seconds * (1 + kRounding) ? std::min(bound, found.seconds) : bound;
    result_.search_seconds = elapsed();
    return std::move(result_);
  }

 private:
  bool has_groups() const { return groups_ > 1 && groups_ < machine_.devices(); }

  // Every kind, as is found in little time: so none of them is better than what the search ends with, as far as it gets. Then
  // those that are best begin.
  void try_quickly(double until) {
    for (std::size_t k = 0; k < wanted_.size(); ++k)
      if (!best_ || elapsed() < (k < kByHand ? std::max(until, kStillProved * search_.seconds) : until))
        consider(wanted_[k], {kQuick, 1, true});
    for (const std::string& strategy : best_strategies(kTriedAgain))
      if (elapsed() < until) consider(levels_of(strategy), {kQuick, kExchangingBeside, true});
    const auto place = [&](const Levels& levels) {
      const auto known = result_.strategies.find(name_of(levels));
      return known == result_.strategies.end() ? std::numeric_limits<double>::infinity() : known->second;
    };
    std::stable_sort(wanted_.begin(), wanted_.end(), [&](const Levels& a, const Levels& b) { return place(a) < place(b); });
  }

  void try_all(double until) {
    for (std::size_t k = 0; k < wanted_.size(); ++k) {
      const double left = until - elapsed();
      if (best_ && left < kLeastProgram) {
        result_.timed_out = true;
        break;
      }
      const std::size_t others = std::min(wanted_.size() - k, kSharers);
      consider(wanted_[k], {std::max(kLeastProgram, left / static_cast<double>(others)), 1, false});
    }
  }

  // The best kinds once more, as if exchanges ran beside computing for the most part.
  void try_again(double until) {
    std::size_t left = kTriedAgain;
    for (const std::string& strategy : best_strategies(kTriedAgain)) {
      if (until - elapsed() < kLeastProgram) break;
      consider(levels_of(strategy), {(until - elapsed()) / static_cast<double>(left--), kExchangingBeside, false});
    }
  }

  std::vector<std::string> best_strategies(std::size_t most) const {
    std::vector<std::pair<double, std::string>> in_order;
    for (const auto& [strategy, seconds] : result_.strategies) in_order.emplace_back(seconds, strategy);
    std::sort(in_order.begin(), in_order.end());
    std::vector<std::string> result;
    for (std::size_t k = 0; k < std::min(most, in_order.size()); ++k) result.push_back(in_order[k].second);
    return result;
  }

  void refine_best(double until, unsigned seed) {
    if (!best_ || elapsed() >= until) return;
    const plans::RefineLimits limits{
        .moves = search_.moves, .seconds = until - elapsed(), .seed = seed, .most_plans = search_.most_plans};
    const bool was_proved = std::exchange(best_->proved_best, true);
    best_ = planner_.refined(std::move(*best_), limits, search_.strategy == "auto");
    result_.timed_out |= !best_->proved_best;
    best_->proved_best = best_->proved_best && was_proved;
    const double step = best_->plan.predicted->seconds;
    double& known = result_.strategies.try_emplace(best_->plan.strategy, step).first->second;
    known = std::min(known, step);
  }

  void consider(const Levels& levels, const Effort& effort) {
    auto candidate =
        levels.inner.empty() ? planner_.one_level(levels.outer, effort) : planner_.two_levels(levels, groups_, effort);
    if (!candidate) return;
    const double peak = candidate->plan.predicted->most_bytes(), step = candidate->plan.predicted->seconds;
    least_memory_ = std::min(least_memory_, peak);
    if (peak > machine_.memory()) return;
    const auto [known, is_new] = result_.strategies.try_emplace(candidate->plan.strategy, step);
    if (is_new || step < known->second) result_.tried.push_back(candidate->plan);
    known->second = std::min(known->second, step);
    result_.timed_out |= !effort.quick && !candidate->proved_best;
    const bool is_better = !best_ || step < best_->plan.predicted->seconds;
    const bool is_proved_now = best_ && step == best_->plan.predicted->seconds && candidate->proved_best && !best_->proved_best;
    if (is_better || is_proved_now) best_ = std::move(candidate);
  }

  [[noreturn]] void refuse() const {
    std::ostringstream what;
    what.precision(3);
    if (planner_.ran_out_of_time() && least_memory_ == std::numeric_limits<double>::infinity()) {
      what << "no plan was found in " << search_.seconds << " s: give the search more time";
      throw Error(ErrorCode::kMissing, what.str());
    }
    what << "no plan was found that fits into " << machine_.memory() / 1e9 << " GB a device";
    if (least_memory_ < std::numeric_limits<double>::infinity()) what << "; the least needs " << least_memory_ / 1e9 << " GB";
    throw Error(ErrorCode::kMissing, what.str());
  }

  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  Planner planner_;
  const Machine& machine_;
  const PlanSearch& search_;
  const std::size_t groups_;
  std::vector<Levels> wanted_;
  FoundPlan result_;
  std::optional<Candidate> best_;
  double least_memory_ = std::numeric_limits<double>::infinity();
};

// Machines on which pipelines of one stage or two for each process may be what is best.
constexpr std::size_t kMostStages = 16;

// The best pipeline in place of what was found, if it is faster. Steps of training end for all processes before the next one
// begins, which costs a pipeline its filling and draining.
void consider_pipelines(const PlannedGraph& planned, const Machine& machine, const PlanSearch& search, double elapsed,
                        bool has_other, FoundPlan& result) {
  const double left = search.seconds - elapsed;
  if (machine.devices() < 2 || machine.devices() > kMostStages || (has_other && left < search.seconds / 10)) return;
  PlanSearch pipelines = search;
  pipelines.strategy = "pipeline", pipelines.alone = true, pipelines.seconds = std::max(left, 1.0);
  FoundPlan found;
  try {
    found = find_pipeline(planned, machine, pipelines);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kUsage && e.code() != ErrorCode::kMissing) throw;
    return;  // no samples, too few nodes, or too little memory
  }
  if (!found.proved) return;
  for (const auto& [name, seconds] : found.strategies) result.strategies[name] = seconds;
  const double seconds = *found.plan.predicted->seconds_alone;
  const bool timed_out = result.timed_out || found.timed_out;
  if (!has_other || seconds < result.plan.predicted->seconds) {
    found.strategies = std::move(result.strategies), found.tried = std::move(result.tried);
    found.search_seconds += elapsed;
    result = std::move(found);
  }
  result.timed_out = timed_out;
}

}  // namespace

FoundPlan search_plan(const PlannedGraph& planned, const Machine& machine, const PlanSearch& search, PlanChoices& choices) {
  if (is_pipeline(search.strategy)) return find_pipeline(planned, machine, search);
  Search searching(planned, machine, search, choices);
  FoundPlan result;
  std::optional<Error> problem;
  try {
    result = searching.run();
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kMissing || search.strategy != "auto") throw;
    problem = e;  // nothing fits into the memory: stages may
  }
  if (search.strategy == "auto") consider_pipelines(planned, machine, search, searching.elapsed(), !problem, result);
  if (problem && !result.plan.pipeline) throw *problem;
  return result;
}

}  // namespace rewright::runtime
