#include "plans/groups/refine.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "base/error.h"
#include "plans/groups/list_schedule.h"
#include "plans/partition/classes.h"
#include "plans/partition/moved_shares.h"

namespace rewright::plans {

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// A unit of change: nodes that choose alike, or given values that are held alike.
struct Changeable {
  std::vector<std::size_t> members;  // positions of nodes, or values
  std::vector<NodeChoice> choices;   // of nodes
  std::vector<Holding> holdings;     // of values
  bool is_value() const { return choices.empty(); }
  std::size_t ways() const { return is_value() ? holdings.size() : choices.size(); }
};

// Each by itself: what a graph of few plans has.
Classes all_apart(const Graph& graph) {
  Classes result{std::vector<std::uint32_t>(graph.nodes().size()), std::vector<std::uint32_t>(graph.value_count()),
                 graph.nodes().size(), graph.value_count()};
  std::iota(result.of_node.begin(), result.of_node.end(), 0u);
  std::iota(result.of_value.begin(), result.of_value.end(), 0u);
  return result;
}

std::vector<Changeable> changeable(const Graph& graph, const Classes& classes, ChoiceFinder& choices,
                                   const PartitionOptions& options) {
  const auto nodes = graph.nodes();
  const auto producers = graph.producers();
  const auto users = graph.users();
  const std::vector<double> moved = moved_shares(graph);
  std::vector<Changeable> by_node(classes.nodes), by_value(classes.values), result;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    Changeable& part = by_node[classes.of_node[n]];
    if (part.members.empty()) part.choices = choices.within_reach(graph, producers, *nodes[n], moved[n]);
    part.members.push_back(n);
  }
  for (ValueId v = 0; v < graph.value_count(); ++v) {
    if (producers[v] >= 0 || users[v].empty()) continue;
    Changeable& part = by_value[classes.of_value[v]];
    if (part.members.empty()) part.holdings = given_holdings(graph.value(v).type, v, options);
    part.members.push_back(v);
  }
  for (auto* parts : {&by_node, &by_value})
    for (Changeable& part : *parts)
      if (part.ways() > 1) result.push_back(std::move(part));
  return result;
}

void cut_so(Partition& partition, const Changeable& part, std::size_t way) {
  for (const std::size_t member : part.members) {
    if (part.is_value())
      partition.given[member] = part.holdings[way];
    else
      partition.nodes[member] = part.choices[way];
  }
}

// Seconds of the step that the simulation has run; infinite where it does not fit.
double step_cost(Simulation& simulation) {
  const auto peaks = simulation.peak_bytes();
  const bool fits = peaks.empty() || *std::max_element(peaks.begin(), peaks.end()) <= simulation.machine().memory();
  return fits ? simulation.seconds() : kInfinite;
}

// Every way to cut each node and to hold each given value, in both orders of execution. A way is left when computing alone
// takes as long as the best step.
class AllPlans {
 public:
  AllPlans(const Machine& machine, const Graph& graph, ChoiceFinder& choices, const PartitionOptions& options,
           const StepGroups& groups)
      : graph_(graph),
        options_(options),
        groups_(groups),
        parts_(changeable(graph, all_apart(graph), choices, options)),
        simulation_(machine),
        least_(parts_.size() + 1, 0) {
    for (std::size_t k = parts_.size(); k-- > 0;) {
      double least = parts_[k].is_value() ? 0 : kInfinite;
      for (const NodeChoice& choice : parts_[k].choices) least = std::min(least, choice.seconds);
      least_[k] = least_[k + 1] + least;
    }
  }

  bool are_at_most(std::size_t count) const {
    std::size_t result = 1;
    for (const Changeable& part : parts_) {
      if (part.ways() > count / result) return false;
      result *= part.ways();
    }
    return true;
  }

  // The best, from one that is known; nothing if there is too little time.
  std::optional<Refined> best(const Partition& start, double seconds, double within) {
    end_ = std::chrono::steady_clock::now() + std::chrono::duration<double>(std::min(within, 1e6));
    best_ = {start, seconds, 0, 0, false};
    now_ = start;
    double fixed = 0;  // seconds of nodes with one way
    for (const NodeChoice& choice : start.nodes) fixed += choice.seconds;
    for (const Changeable& part : parts_)
      for (const std::size_t member : part.members) fixed -= part.is_value() ? 0 : start.nodes[member].seconds;
    return go_on(0, fixed) ? std::optional(best_) : std::nullopt;
  }

 private:
  bool go_on(std::size_t k, double computing) {
    if (computing + least_[k] >= best_.seconds) return true;
    if (k == parts_.size()) return try_orders();
    for (std::size_t way = 0; way < parts_[k].ways(); ++way) {
      cut_so(now_, parts_[k], way);
      if (!go_on(k + 1, computing + (parts_[k].is_value() ? 0 : parts_[k].choices[way].seconds))) return false;
    }
    return true;
  }

  bool try_orders() {
    if (std::chrono::steady_clock::now() > end_) return false;
    ++best_.moves;
    try {
      for (const bool listed : {false, true}) {
        now_.sequence.clear();
        if (listed)
          now_.sequence = list_schedule(graph_, now_, exchanges_of(graph_, now_, options_), options_, groups_.exchanges);
        StepBlocks blocks = step_blocks(simulation_.machine(), graph_, now_, options_, groups_);
        replace_blocks(simulation_, blocks_, blocks);
        blocks_ = std::move(blocks);
        simulation_.run();
        if (const double seconds = step_cost(simulation_); seconds < best_.seconds)
          best_.partition = now_, best_.seconds = seconds, ++best_.taken;
      }
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kBadInput && e.code() != ErrorCode::kUnsupported) throw;  // an operand cannot be had so
    }
    return true;
  }

  const Graph& graph_;
  const PartitionOptions& options_;
  const StepGroups& groups_;
  std::vector<Changeable> parts_;  // nodes, then given values
  Simulation simulation_;
  StepBlocks blocks_;
  std::vector<double> least_;  // seconds of computing from a part on
  std::chrono::time_point<std::chrono::steady_clock, std::chrono::duration<double>> end_;
  Partition now_;
  Refined best_;
};

}  // namespace

Refined refine(const Machine& machine, const Graph& graph, Partition start, ChoiceFinder& choices,
               const PartitionOptions& options, const StepGroups& groups, const RefineLimits& limits) {
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<Changeable> parts = changeable(graph, classes_of(graph, kAlikeDistance), choices, options);
  Simulation simulation(machine);
  StepBlocks blocks = step_blocks(machine, graph, start, options, groups);
  replace_blocks(simulation, {}, blocks);
  simulation.run();
  Partition now = start;
  double cost = step_cost(simulation);
  if (AllPlans all(machine, graph, choices, options, groups); limits.moves > 0 && all.are_at_most(limits.most_plans))
    if (auto best = all.best(start, cost, limits.seconds / 2)) return *std::move(best);
  Refined result{std::move(start), cost, 0, 0, false};
  // Not the library's distributions, which differ from one to another.
  std::mt19937 random(limits.seed);
  const auto below = [&](std::size_t count) { return random() % count; };
  while (!parts.empty() && result.moves < limits.moves) {
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > limits.seconds) {
      result.timed_out = true;
      break;
    }
    ++result.moves;
    const Changeable& part = parts[below(parts.size())];
    Partition next = now;
    cut_so(next, part, below(part.ways()));
    const double chance = static_cast<double>(random()) / 4294967296.0;
    StepBlocks changed;
    try {
      changed = step_blocks(machine, graph, next, options, groups);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kBadInput && e.code() != ErrorCode::kUnsupported) throw;
      continue;  // a value cannot be had as the other way needs it
    }
    replace_blocks(simulation, blocks, changed);
    simulation.run();
    const double other = step_cost(simulation);
    if (!(other <= cost) && !(chance < std::exp((cost - other) / (limits.temperature * cost)))) {
      replace_blocks(simulation, changed, blocks);
      continue;
    }
    ++result.taken;
    now = std::move(next), blocks = std::move(changed), cost = other;
    if (cost < result.seconds) result.partition = now, result.seconds = cost;
  }
  if (!result.partition.sequence.empty() && result.taken > 0) {
    // The order was that of the first partition.
    Partition again = result.partition;
    again.sequence = list_schedule(graph, again, exchanges_of(graph, again, options), options, groups.exchanges);
    replace_blocks(simulation, blocks, step_blocks(machine, graph, again, options, groups));
    simulation.run();
    if (const double other = step_cost(simulation); other < result.seconds)
      result.partition = std::move(again), result.seconds = other;
  }
  return result;
}

}  // namespace rewright::plans
