#include "runtime/planned/network_search.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "plans/topology/topologies.h"
#include "runtime/planned/plan_simulation.h"
#include "runtime/planned/planned_links.h"

namespace rewright::runtime {

namespace {

using plans::Machine, plans::MachineDescription, plans::NetworkDescription, plans::Ports, plans::Topology, plans::Traffic;

constexpr std::size_t kMostTurns = 4;
constexpr std::size_t kMostExchanges = 400;  // of two cables' ends
constexpr double kLeastGain = 1e-3;          // of a turn
// Shares of the time, by which parts of the search end.
constexpr double kForSwitch = 0.3, kForTree = 0.45, kForNamed = 0.65;
constexpr std::size_t kMostNamed = 2;  // rings and tori that plans are searched for; the others get those
constexpr double kForExchanges = 0.3;  // of a turn's time

class NetworkSearch {
 public:
  NetworkSearch(const PlannedGraph& planned, const Machine& machine, std::size_t cables, const PlanSearch& search)
      : planned_(planned), given_(machine), search_(search), choices_(machine, is_step(planned)), random_(search.seed) {
    if (machine.nodes() < 2 || machine.nodes() > kMostNodesJoined)
      throw Error(ErrorCode::kUsage,
                  "a network is found for 2 to " + std::to_string(kMostNodesJoined) + " nodes, and the machine has " +
                      std::to_string(machine.nodes()),
                  "--cables");
    const NetworkDescription& cluster = *machine.description().cluster;
    if (cluster.shape == "edges")
      throw Error(ErrorCode::kUsage, "the machine says which cables there are", "--cables",
                  "its links.cluster has to have latency and bytes_per_second of one cable");
    ports_ = {machine.nodes(), cables, cluster.latency, cluster.bytes_per_second};
  }

  FoundNetwork run() {
    const std::vector<Topology> named = named_topologies(ports_);
    // The plans for a switch with all of a node's rate are often good on the others, too.
    add_plans({ports_.latency, ports_.bytes_per_second * static_cast<double>(ports_.each), "switch"},
              kForSwitch * search_.seconds);
    const Topology tree = fat_tree_of_like_cost(ports_);
    plan_for(tree, kForTree * search_.seconds - elapsed(), switched_);
    for (const Topology& topology : named) consider_known(topology, joined_);
    plan_for_best(named);
    if (joined_.any) take_turns();
    for (const Topology& topology : named) consider_known(topology, joined_);
    consider_known(tree, switched_);
    if (!joined_.any && !switched_.any) throw *nothing_fits_;
    const bool is_switched = !joined_.any || (switched_.any && switched_.seconds() < joined_.seconds());
    Best& best = is_switched ? switched_ : joined_;
    double& bound = best.plan.plan.predicted->lower_bound;
    if (bound == 0) bound = std::min(add_plans(*best.machine.cluster, 0), best.seconds());
    result_.machine = std::move(best.machine), result_.name = std::move(best.name), result_.plan = std::move(best.plan);
    result_.plan.search_seconds = elapsed();
    prove_plan(result_.plan, planned_);
    return std::move(result_);
  }

 private:
  // The best of all plans that are known on some networks.
  struct Best {
    bool any = false;
    MachineDescription machine;
    std::string name;
    FoundPlan plan;
    double seconds() const { return plan.plan.predicted->seconds; }
  };

  // Searches for plans for the networks on which the known ones are best.
  void plan_for_best(const std::vector<Topology>& named) {
    const auto seconds = [&](const Topology& topology) {
      const auto known = result_.networks.find(topology.name);
      return known == result_.networks.end() ? std::numeric_limits<double>::infinity() : known->second;
    };
    std::vector<const Topology*> order;
    for (const Topology& topology : named) order.push_back(&topology);
    std::stable_sort(order.begin(), order.end(),
                     [&](const Topology* a, const Topology* b) { return seconds(*a) < seconds(*b); });
    order.resize(std::min(order.size(), kMostNamed));
    for (std::size_t k = 0; k < order.size(); ++k)
      plan_for(*order[k], (kForNamed * search_.seconds - elapsed()) / static_cast<double>(order.size() - k), joined_);
  }

  void take_turns() {
    for (std::size_t turn = 0; turn < kMostTurns && elapsed() < search_.seconds; ++turn) {
      const double before = joined_.seconds(), left = search_.seconds - elapsed();
      const std::optional<Topology> found = network_for(joined_.plan.plan, elapsed() + kForExchanges * left);
      if (!found) break;
      ++result_.turns;
      considered_.erase(found->name);  // another network may have had it
      plan_for(*found, 0.5 * left, joined_);
      if (joined_.seconds() > before * (1 - kLeastGain)) break;
    }
  }

  double elapsed() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }

  MachineDescription with(const NetworkDescription& network) const {
    MachineDescription result = given_.description();
    result.cluster = network, result.rings = true;
    return result;
  }
  Machine machine_with(MachineDescription description) const {
    return Machine(std::move(description), given_.shared_profile());
  }

  // Seconds of a step of this plan.
  double simulated(const plans::Plan& plan, const NetworkDescription& network) const {
    const Machine machine = machine_with(with(network));
    plans::Simulation simulation(machine);
    const plans::Plan here = exchanged_over(plan, machine);
    simulate_plan(simulation, here, divided_by(here, planned_));
    return simulation.seconds();
  }

  // The plan, with values exchanged in pairs where that is faster over this machine's network.
  static plans::Plan exchanged_over(plans::Plan plan, const Machine& machine) {
    if (plan.pipeline) return plan;
    const std::size_t groups = plan.within ? static_cast<std::size_t>(plan.processes) : 1;
    if (plan.pairs) plan.pairs = pairs_among(machine, groups, plan.within != nullptr);
    if (plan.within && plan.within->pairs) {
      plans::Plan within = *plan.within;
      within.pairs = pairs_among(machine, groups, false);
      plan.within = std::make_shared<const plans::Plan>(std::move(within));
    }
    return plan;
  }

  // Adds the plans for a network that are found in this time to those that are known; returns the lower bound of all plans.
  double add_plans(const NetworkDescription& network, double time) {
    PlanSearch search = search_;
    search.seconds = std::max(1.0, time);
    try {
      FoundPlan found = search_plan(planned_, machine_with(with(network)), search, choices_);
      for (plans::Plan& plan : std::exchange(found.tried, {})) {
        FoundPlan& other = known_.emplace_back(found);
        other.plan = std::move(plan);
      }
      known_.push_back(std::move(found));
      return known_.back().plan.predicted->lower_bound;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kMissing) throw;
      nothing_fits_ = error;  // or there was no time to find it
      return 0;
    }
  }

  // The best plan for a network, of those that are known and that is found in this time; kept if it is the best.
  void plan_for(const Topology& topology, double time, Best& best) {
    bounds_[topology.name] = add_plans(topology.network, time);
    consider_known(topology, best);
  }

  void consider_known(const Topology& topology, Best& best) {
    const Machine machine = machine_with(with(topology.network));
    for (std::size_t& k = considered_[topology.name]; k < known_.size(); ++k) {
      const FoundPlan& known = known_[k];
      plans::Plan plan = exchanged_over(known.plan, machine);
      plans::PlanPrediction here = predicted(plan, machine);
      if (here.most_bytes() > machine.memory()) continue;
      const auto [at, is_new] = result_.networks.try_emplace(topology.name, here.seconds);
      at->second = std::min(at->second, here.seconds);
      if (best.any && here.seconds >= best.seconds()) continue;
      const auto bound = bounds_.find(topology.name);
      here.lower_bound = bound == bounds_.end() ? 0 : bound->second;
      best = {true, machine.description(), topology.name, known};
      best.plan.plan = std::move(plan);
      best.plan.plan.predicted = std::move(here);
    }
  }

  plans::PlanPrediction predicted(const plans::Plan& plan, const Machine& machine) const {
    plans::Simulation simulation(machine);
    simulate_plan(simulation, plan, divided_by(plan, planned_));
    plans::PlanPrediction result = prediction_of(simulation);
    result.node_seconds = plan.predicted->node_seconds, result.bubble = plan.predicted->bubble;
    return result;
  }

  // Every pair of nodes has a cable of its own, so that a link's bytes are those that one sends the other. Rings go in the
  // order of the nodes: what all of them send the next is theirs.
  Traffic traffic_of(const plans::Plan& plan) const {
    const std::size_t n = ports_.nodes;
    NetworkDescription all{.shape = "edges"};
    for (std::uint32_t a = 0; a < n; ++a)
      for (std::uint32_t b = a + 1; b < n; ++b) all.edges.push_back({a, b, ports_.latency, ports_.bytes_per_second});
    MachineDescription description = with(all);
    description.rings = false;
    const Machine machine = machine_with(std::move(description));
    plans::Simulation simulation(machine);
    simulate_plan(simulation, plan, divided_by(plan, planned_));
    const std::vector<double> bytes = plans::totals(simulation).link_bytes;
    Traffic traffic{std::vector<double>(n * n), std::numeric_limits<double>::infinity()};
    for (std::size_t l = machine.links().size() - machine.cluster_links(); l < bytes.size(); ++l)
      traffic.between[machine.links()[l].from * n + machine.links()[l].to] += bytes[l];
    for (std::size_t a = 0; a < n; ++a) traffic.around = std::min(traffic.around, traffic.between[a * n + (a + 1) % n]);
    for (std::size_t a = 0; a < n; ++a) traffic.between[a * n + (a + 1) % n] -= traffic.around;
    return traffic;
  }

  // The best network of cables for the plan: of those that its traffic proposes and the best one so far, then by exchanges of
  // ends. None if that is the best one so far.
  std::optional<Topology> network_for(const plans::Plan& plan, double end) {
    Topology best{joined_.name, *joined_.machine.cluster};
    double least = simulated(plan, best.network);
    const double known = least;
    for (Topology& topology : topologies_for(traffic_of(plan), ports_)) {
      const double step = simulated(plan, topology.network);
      if (step < least) least = step, best = std::move(topology);
    }
    bool is_exchanged = false;
    for (std::size_t n = 0; n < kMostExchanges && elapsed() < end; ++n) {
      NetworkDescription other = with_exchanged_ends(best.network, random_);
      if (!is_connected(other, ports_.nodes)) continue;
      const double step = simulated(plan, other);
      if (step < least * (1 - 1e-9)) least = step, best.network = std::move(other), is_exchanged = true;
    }
    if (is_exchanged && !best.name.ends_with("exchanged")) best.name += ", exchanged";
    return least < known * (1 - kLeastGain) ? std::optional(best) : std::nullopt;
  }

  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  const PlannedGraph& planned_;
  const Machine& given_;
  const PlanSearch& search_;
  PlanChoices choices_;  // the devices are the same on all networks
  Ports ports_;
  std::mt19937 random_;
  FoundNetwork result_;
  std::vector<FoundPlan> known_;
  std::map<std::string, std::size_t> considered_;  // of the known plans, by the network's name
  std::map<std::string, double> bounds_;           // of all plans for a network, by name
  Best joined_, switched_;                         // by cables, by the fat tree
  std::optional<Error> nothing_fits_;
};

}  // namespace

FoundNetwork find_network(const PlannedGraph& planned, const Machine& machine, std::size_t cables, const PlanSearch& search) {
  return NetworkSearch(planned, machine, cables, search).run();
}

}  // namespace rewright::runtime
