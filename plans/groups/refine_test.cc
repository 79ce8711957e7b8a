#include "plans/groups/refine.h"

#include <catch2/catch.hpp>

#include "operators/testing/share.h"
#include "optimizer/costs/cost_model.h"
#include "plans/plan.h"

namespace rewright::plans {

namespace {

double by_operations(const Operator& op, const Attributes& attributes, OperandTypes types, double) {
  const OperatorTraits traits = operator_traits(op, attributes, types);
  return traits.free ? 0 : traits.operations / 1e11 + traits.bytes / 1e11;
}

Machine of_four() {
  MachineDescription description;
  description.devices = description.per_node = 4;
  description.rates = DeviceRates{1e11, 1e11, 0};
  description.memory = 1e9;
  description.node = NetworkDescription{.latency = 1e-6, .bytes_per_second = 1e10};
  return Machine(description);
}

// Two equal layers and a product.
Graph layers() {
  Graph graph;
  const auto add = [&](const char* op, std::vector<ValueId> inputs) {
    return graph.add_node(registry().get(op), registry().get(op).defaults(), std::move(inputs)).at(0);
  };
  ValueId x = graph.add_input("x", {DataType::kFloat, {256, 64}});
  for (const char* name : {"a", "b"})
    x = add("Relu", {add("MatMul", {x, graph.add_input(name, {DataType::kFloat, {64, 64}})})});
  graph.add_output("y", add("MatMul", {x, graph.add_input("c", {DataType::kFloat, {64, 8}})}));
  return graph;
}

Partition first_choices(const Graph& graph, ChoiceFinder& choices) {
  Partition result;
  for (const auto& node : graph.nodes()) result.nodes.push_back(choices.of(graph, *node).front());
  result.given.resize(graph.value_count());
  return result;
}

}  // namespace

TEST_CASE("refine: from all work in each process to less of it, alike for a seed, and proved") {
  const Graph graph = layers();
  const Machine machine = of_four();
  PartitionOptions options;
  options.processes = 4;
  ChoiceFinder choices(4, by_operations);
  const Partition start = first_choices(graph, choices);
  const Refined none = refine(machine, graph, start, choices, options, {}, {.moves = 0});
  const RefineLimits limits{.moves = 300, .seconds = 1e9, .seed = 3, .most_plans = 0};
  const Refined found = refine(machine, graph, start, choices, options, {}, limits);
  CHECK(found.moves == 300);
  CHECK(found.taken > 0);
  CHECK_FALSE(found.timed_out);
  CHECK(found.seconds < 0.5 * none.seconds);

  const Refined again = refine(machine, graph, start, choices, options, {}, limits);
  CHECK(again.seconds == found.seconds);
  CHECK(again.taken == found.taken);
  Simulation simulation(machine);
  simulate_step(simulation, graph, found.partition, options);
  simulation.run();
  CHECK(simulation.seconds() == found.seconds);
  CHECK(check_plan(make_plan(graph, found.partition, options), graph, {}).reason.empty());

  CHECK(refine(machine, graph, start, choices, options, {}, {.seconds = 0}).timed_out);
}

TEST_CASE("refine: of few partitions the best is found, and no move makes it better") {
  const Graph graph = layers();
  const Machine machine = of_four();
  PartitionOptions options;
  options.processes = 4;
  ChoiceFinder choices(4, by_operations);
  const Partition start = first_choices(graph, choices);
  const Refined best = refine(machine, graph, start, choices, options, {}, {.seconds = 1e9, .most_plans = 1'000'000});
  CHECK(best.moves > 0);
  const std::size_t moves = testing::kSanitized ? 60 : 300;
  for (unsigned seed = 0; seed < 3; ++seed) {
    const RefineLimits limits{.moves = moves, .seconds = 1e9, .seed = seed, .most_plans = 0};
    CHECK(best.seconds <= refine(machine, graph, start, choices, options, {}, limits).seconds);
    const Refined again = refine(machine, graph, best.partition, choices, options, {}, limits);
    CHECK(again.moves == moves);
    CHECK(again.seconds == best.seconds);
  }
  // There are more than so few.
  CHECK(refine(machine, graph, start, choices, options, {}, {.moves = 10, .seconds = 1e9, .most_plans = 3}).moves == 10);
}

}  // namespace rewright::plans
