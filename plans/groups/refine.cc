#include "plans/groups/refine.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "base/error.h"
#include "plans/partition/classes.h"

namespace rewright::plans {

namespace {

// A unit of change: nodes that choose alike, or given values that are held alike.
struct Changeable {
  std::vector<std::size_t> members;  // positions of nodes, or values
  std::vector<NodeChoice> choices;   // of nodes
  std::vector<Holding> holdings;     // of values
  bool is_value() const { return choices.empty(); }
  std::size_t ways() const { return is_value() ? holdings.size() : choices.size(); }
};

std::vector<Changeable> changeable(const Graph& graph, ChoiceFinder& choices, const PartitionOptions& options) {
  const Classes classes = classes_of(graph, kAlikeDistance);
  const auto nodes = graph.nodes();
  const auto producers = graph.producers();
  const auto users = graph.users();
  std::vector<Changeable> by_node(classes.nodes), by_value(classes.values), result;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    Changeable& part = by_node[classes.of_node[n]];
    if (part.members.empty()) part.choices = choices.within_reach(graph, producers, *nodes[n]);
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
  return fits ? simulation.seconds() : std::numeric_limits<double>::infinity();
}

}  // namespace

Refined refine(const Machine& machine, const Graph& graph, Partition start, ChoiceFinder& choices,
               const PartitionOptions& options, const StepGroups& groups, const RefineLimits& limits) {
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<Changeable> parts = changeable(graph, choices, options);
  Simulation simulation(machine);
  StepBlocks blocks = step_blocks(machine, graph, start, options, groups);
  replace_blocks(simulation, {}, blocks);
  simulation.run();
  Partition now = start;
  double cost = step_cost(simulation);
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
  return result;
}

}  // namespace rewright::plans
