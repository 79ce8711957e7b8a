#include "runtime/planned/planner.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "operators/testing/share.h"
#include "plans/groups/list_schedule.h"
#include "plans/groups/step.h"
#include "plans/machines/machine_file.h"
#include "plans/partition/moved_shares.h"
#include "runtime/testing.h"
#include "runtime/training/testing.h"

namespace rewright::runtime {
namespace {

using plans::Holding, plans::Machine, plans::Partition;
using testing::ModelBuilder, testing::node, testing::RandomGraph;

Machine one_node(std::size_t devices, double memory, double bytes_per_second = 1e8) {
  return Machine(plans::make_cluster(1, devices, {1e9, 1e9}, memory, {1e-7, bytes_per_second, "switch"}, {}));
}

// Three operators on inputs and weights, small enough to try all ways of dividing them.
PlannedGraph few_operators(unsigned seed) {
  RandomGraph g(seed);
  ValueId x = g.input({8, 8});
  for (int n = 0; n < 3; ++n) switch (g.pick(0, 3)) {
      case 0:
        x = node(g.graph, "MatMul", {x, g.constant({8, 8})}).at(0);
        break;
      case 1:
        x = node(g.graph, "Tanh", {x}).at(0);
        break;
      case 2:
        x = node(g.graph, "Softmax", {x}, {{"axis", Index(g.pick(0, 1))}}).at(0);
        break;
      default:
        x = node(g.graph, "Transpose", {x}, {{"perm", Indices{1, 0}}}).at(0);
    }
  g.graph.add_output("y", node(g.graph, "Add", {x, g.constant({8})}).at(0));
  g.graph.tidy();
  return planned_for_inference(g.graph);
}

// The seconds of the best of all plans of one level.
double best_of_all(const PlannedGraph& planned, const Machine& machine) {
  const Graph& graph = planned.graph;
  plans::PartitionOptions options;
  options.processes = static_cast<std::int64_t>(machine.devices());
  options.latency = 1e-7, options.seconds_per_byte = 1e-8;
  plans::ChoiceFinder choices(options.processes, device_seconds(machine.rates()));
  const std::vector<double> moved = plans::moved_shares(graph);
  Partition partition;
  partition.given.resize(graph.value_count()), partition.nodes.resize(graph.nodes().size());
  std::vector<ValueId> given;
  const auto producers = graph.producers();
  const auto users = graph.users();
  for (ValueId v = 0; v < graph.value_count(); ++v)
    if (producers[v] < 0 && !users[v].empty()) given.push_back(v);
  double best = std::numeric_limits<double>::infinity();
  const std::function<void(std::size_t)> hold = [&](std::size_t k) {
    if (k < given.size()) {
      for (const Holding& h : given_holdings(graph.value(given[k]).type, given[k], options)) {
        partition.given[given[k]] = h;
        hold(k + 1);
      }
      return;
    }
    try {
      const auto exchanges = exchanges_of(graph, partition, options);
      for (const bool listed : {false, true}) {
        partition.sequence.clear();
        if (listed) partition.sequence = list_schedule(graph, partition, exchanges, options, {});
        plans::Simulation simulation(machine);
        simulate_step(simulation, graph, partition, options);
        simulation.run();
        best = std::min(best, simulation.seconds());
      }
    } catch (const Error&) {
      return;  // an operand cannot be had as it is needed
    }
  };
  const std::function<void(std::size_t)> cut = [&](std::size_t n) {
    if (n == graph.nodes().size()) return hold(0);
    for (const plans::NodeChoice& choice : choices.of(graph, *graph.nodes()[n], moved[n])) {
      partition.nodes[n] = choice;
      cut(n + 1);
    }
  };
  cut(0);
  return best;
}

// Layers whose inputs take far more memory than their weights.
PlannedGraph deep_network() {
  ModelBuilder m(3);
  ValueId x = m.graph.add_input("x", {DataType::kFloat, {512, 16}});
  for (int layer = 0; layer < 12; ++layer)
    x = m.b.add("Tanh", {m.b.add("MatMul", {x, m.weights({16, 16}, "w" + std::to_string(layer), 0.2)})});
  m.graph.add_output("y", x);
  m.graph.tidy();
  return planned_for_training(training::make_training_graphs(m.graph, "", planned_training("softmax-cross-entropy", "sgd")));
}

}  // namespace

TEST_CASE("planner: no plan takes less than the lower bound, and the best of all plans is found") {
  for (unsigned seed = 0; seed < testing::instances(8); ++seed)
    for (const std::size_t devices : {2, 4}) {
      INFO("seed " << seed << ", " << devices << " devices");
      const PlannedGraph planned = few_operators(seed);
      const Machine machine = one_node(devices, 1e9);
      const double best = best_of_all(planned, machine);
      const FoundPlan found = find_plan(planned, machine, {.strategy = "auto", .seconds = 60, .seed = seed});
      CHECK(found.plan.predicted->lower_bound <= best * (1 + 1e-9));
      if (!found.plan.pipeline) CHECK(found.plan.predicted->seconds >= best * (1 - 1e-9));
      CHECK(found.plan.predicted->seconds <= best * (1 + 1e-6));
    }
}

TEST_CASE("planner: what does not fit is computed again, in one level and in two", "[long]") {
  const PlannedGraph planned = deep_network();
  for (const bool two_levels : {false, true}) {
    PlanSearch search{.strategy = two_levels ? "data+data" : "data", .groups = two_levels ? 2u : 0u, .seconds = 60};
    const auto find = [&](double memory) { return find_plan(planned, one_node(4, memory), search); };
    const auto again = [](const FoundPlan& found) {
      const plans::Plan& last = found.plan.within ? *found.plan.within : found.plan;
      return std::count(last.again.begin(), last.again.end(), true);
    };
    const FoundPlan free = find(1e9);
    CHECK(again(free) == 0);
    const double most = free.plan.predicted->most_bytes();
    // Some of the memory can be had without it.
    double memory = 0.9 * most;
    while (memory > 0.4 * most && again(find(memory)) == 0) memory -= 0.1 * most;
    const FoundPlan small = find(memory);
    REQUIRE(again(small) > 0);
    CHECK(small.proved);
    CHECK(small.plan.predicted->most_bytes() <= memory);
    CHECK(small.plan.predicted->computing_seconds[0] > free.plan.predicted->computing_seconds[0]);
    CHECK(small.plan.predicted->computing_seconds[0] < 1.5 * free.plan.predicted->computing_seconds[0]);
    // The written plan is proved again, and simulates alike.
    const PlannedGraph divided = divided_by(small.plan, planned);
    const plans::Plan read = plans::read_plan(write_plan(small.plan, divided.graph, divided.replaced), "a plan");
    CHECK(check_plan(read, divided.graph, divided.replaced).reason.empty());
    const Machine machine = one_node(4, 1e9);
    plans::Simulation simulation(machine);
    simulate_plan(simulation, read, divided);
    CHECK(prediction_of(simulation).most_bytes() == small.plan.predicted->most_bytes());
    CHECK_THROWS_WITH(find(0.02 * most), Catch::Contains("no plan was found"));
  }
}

}  // namespace rewright::runtime
