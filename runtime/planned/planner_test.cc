#include "runtime/planned/planner.h"

#include "runtime/planned/plan_simulation.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "operators/testing/share.h"
#include "optimizer/costs/cost_model.h"
#include "optimizer/costs/operator_factors.h"
#include "plans/groups/list_schedule.h"
#include "plans/groups/step.h"
#include "plans/machines/machine_file.h"
#include "plans/partition/moved_shares.h"
#include "runtime/planned/pipeline_planner.h"
#include "runtime/planned/strategy_levels.h"
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
  plans::ChoiceFinder choices(options.processes, device_seconds(machine));
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

TEST_CASE("planner: without time there is a plan, proved, and no strategy that was tried is better") {
  for (const std::size_t nodes : {1, 2}) {
    const PlannedGraph planned = deep_network();
    const Machine machine(plans::make_cluster(nodes, 4, {1e9, 1e9}, 1e9, {1e-6, 1e9, "switch"}, {1e-6, 1e8, "switch"}));
    for (const double seconds : {0.0, 2.0}) {
      const FoundPlan found = find_plan(planned, machine, {.strategy = "auto", .seconds = seconds});
      CHECK(found.proved);
      CHECK(found.rules > 0);
      REQUIRE(!found.strategies.empty());
      if (!found.plan.pipeline)
        for (const auto& [strategy, step] : found.strategies)
          if (!is_pipeline(strategy)) CHECK(found.plan.predicted->seconds <= step * (1 + 1e-9));
    }
  }
}

TEST_CASE("planner: one process divides nothing") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const PlannedGraph planned = few_operators(seed);
    for (const PlanStrategy& strategy : strategies()) {
      if (strategy.data == PlanStrategy::Data::kImages) continue;
      PlanSearch search;
      search.strategy = strategy.name, search.seconds = 5, search.seed = seed;
      const plans::Plan plan = find_plan(planned, one_node(1, 1e9), search).plan;
      CHECK(plan.exchanges.empty());
    }
  }
}

TEST_CASE("planner: a search whose cuts are not proved begins anew with those that are") {
  RandomGraph g(2);
  Node unknown;
  unknown.opaque_reason = "unknown";
  unknown.inputs = {node(g.graph, "Tanh", {g.input({64, 64})}).at(0)};
  Value value;
  value.type = {DataType::kFloat, {64, 64}};
  unknown.outputs = {g.graph.add_value(value)};
  const ValueId between = unknown.outputs[0];
  g.graph.add_raw(unknown);
  g.graph.add_output("y", node(g.graph, "MatMul", {between, g.constant({64, 64})}).at(0));
  PlannedGraph planned;
  planned.graph = g.graph;
  planned.data = {g.graph.inputs()[0]};
  // A cut of the node that nobody knows, which saves almost all of the time and is none.
  plans::NodeChoice all = plans::whole_choice(unknown), wrong = all;
  all.seconds = 1;
  wrong.cut = plans::Cut{64, {{plans::Share::Kind::kCut, 0, 1}}, {{plans::Share::Kind::kCut, 0, 1}}, {}};
  wrong.needs[0].holding = wrong.gives[0] = plans::cut_along(0, 1, 64, 2, 64);
  const Machine machine = one_node(2, 1e9);
  PlanChoices proposed(machine, false, false);
  proposed.among(2, 1, false).add_opaque("unknown", {all, wrong});
  const PlanSearch search{.strategy = "tensor", .seconds = 10, .moves = 20, .most_plans = 0};
  const FoundPlan unproved = search_plan(planned, machine, search, proposed);
  REQUIRE(unproved.plan.cuts.at(1));
  FoundPlan refused = unproved;
  CHECK_THROWS_AS(prove_plan(refused, planned), Error);
  const FoundPlan found = find_plan(planned, machine, search, proposed);
  CHECK(found.proved);
  CHECK(found.rules > 0);
  CHECK_FALSE(found.plan.cuts.at(1));
  CHECK(found.plan.cuts.at(2));
  CHECK(check_plan(found.plan, planned.graph, planned.replaced).proved);
}

TEST_CASE("planner: strategies are levels, and those that there are not are refused") {
  for (const std::string name : {"data", "zero+tensor"}) CHECK(name_of(levels_of(name)) == name);
  CHECK(wanted_levels("tensor", false, false).size() == 1);
  CHECK(wanted_levels("data+tensor", true, false).front().inner == "tensor");
  CHECK_THROWS_AS(wanted_levels("data+tensor", false, false), Error);
  CHECK_THROWS_AS(wanted_levels("date", true, true), Error);
  const auto count = [](bool has_groups, bool has_images) { return wanted_levels("auto", has_groups, has_images).size(); };
  CHECK(count(false, true) == count(false, false) + 1);
  CHECK(count(true, false) == count(false, false) + 5);
}

TEST_CASE("planner: prices by a profile, with exchanges that take the device's time, keep the lower bound and the simulation") {
  for (unsigned seed = 0; seed < testing::instances(8); ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto any = [&] { return static_cast<double>(1 + random() % 1000) / 250; };
    const PlannedGraph planned = few_operators(seed);
    plans::MachineDescription description = plans::make_node(2 + 2 * (seed % 2), {1e9, 1e9}, 1e9, {1e-7, 1e8, "switch"});
    description.exchange_seconds = 1e-6 * any(), description.exchanges_beside = random() % 2 == 0;
    description.node_bytes_per_second = 1e9 * any();
    DeviceProfile profile{"d", {1e9, 1e9, 0}, {}};
    for (const auto& each : planned.graph.nodes()) {
      const auto types = planned.graph.operand_types(*each);
      const OperatorSignature one =
          operator_signature(*each->op, each->attributes, types, operator_traits(*each->op, each->attributes, types));
      if (one.size.bytes > 0) profile.operators.push_back({one.text, any() * one.size.bytes / 1e9, one.size});
    }
    const auto model = std::make_shared<const ProfileModel>(merge_profiles(std::span(&profile, 1)));
    const Machine machine(description, model);
    const FoundPlan found =
        find_plan(planned, machine, {.strategy = "tensor", .seconds = 60, .seed = seed, .moves = 30, .most_plans = 0});
    CHECK(found.plan.predicted->lower_bound <= found.plan.predicted->seconds);
    plans::Simulation simulation(machine);
    simulate_plan(simulation, found.plan, planned);
    CHECK(prediction_of(simulation).seconds == Approx(found.plan.predicted->seconds).epsilon(1e-9));
    if (!description.exchanges_beside)
      CHECK(found.plan.predicted->seconds >=
            (found.plan.predicted->computing_seconds[0] + found.plan.predicted->exchanging_seconds[0]) * (1 - 1e-9));
  }
}

TEST_CASE("planner: the price is the roofline's, times the profile's factor, and no less than the bytes'") {
  RandomGraph g(1);
  const ValueId x = node(g.graph, "MatMul", {g.input({64, 32}), g.input({32, 48})}).at(0);
  const Node& product = *g.graph.nodes()[0];
  g.graph.add_output("y", x);
  const auto types = g.graph.operand_types(product);
  const OperatorTraits traits = operator_traits(*product.op, product.attributes, types);
  const OperatorSignature one = operator_signature(*product.op, product.attributes, types, traits);
  plans::MachineDescription description{.rates = plans::DeviceRates{1e9, 2e9, 1e-6}};
  const auto price = [&](const Machine& machine, double moved, std::size_t parts = 1) {
    return device_seconds(machine, true, parts)(*product.op, product.attributes, types, moved);
  };
  const double roofline = 1e-6 + traits.operations / 1e9;
  CHECK(price(Machine(description), 1) == Approx(roofline));
  for (const double factor : {0.25, 1e-9, 3.0}) {
    DeviceProfile profile{"d", {1e9, 2e9, 1e-6}, {{one.text, factor * roofline, one.size}}};
    const Machine machine(description, std::make_shared<const ProfileModel>(profile));
    for (const double moved : {0.0, 1.0})
      CHECK(price(machine, moved) == Approx(std::max(factor * roofline, moved * traits.bytes / 2e9)));
    CHECK(price(machine, 0, 2) == Approx(factor * (1e-6 + traits.operations / 2e9)));
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
