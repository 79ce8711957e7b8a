#include "runtime/planned/network_search.h"

#include <catch2/catch.hpp>
#include <vector>

#include "base/error.h"
#include "operators/testing/share.h"
#include "plans/machines/machine_file.h"
#include "runtime/planned/plan_simulation.h"
#include "runtime/planned/planned_graph.h"
#include "runtime/testing.h"

namespace rewright::runtime {
namespace {

using plans::Machine, plans::MachineDescription;
using testing::node, testing::RandomGraph;

// Samples are few and weights large, so that exchanges count.
PlannedGraph layers() {
  RandomGraph g(1);
  ValueId x = g.input({16, 64});
  for (int layer = 0; layer < 3; ++layer)
    x = node(g.graph, "Relu", {node(g.graph, "MatMul", {x, g.constant({64, 64})}).at(0)}).at(0);
  g.graph.add_output("y", x);
  g.graph.tidy();
  return planned_for_inference(g.graph);
}

MachineDescription cluster(std::size_t nodes, std::size_t per_node, double memory) {
  return plans::make_cluster(nodes, per_node, {1e9, 1e9}, memory, {1e-7, 1e10, "switch"}, {1e-6, 1e8, "switch"});
}

PlanSearch quick() { return {.strategy = "zero", .seconds = 100, .seed = 3, .moves = 20, .most_plans = 0}; }

}  // namespace

TEST_CASE("a network is found together with a plan") {
  const PlannedGraph planned = layers();
  for (const auto& [nodes, per_node] : {std::pair<std::size_t, std::size_t>{8, 1}, {4, 2}}) {
    INFO(nodes << " nodes of " << per_node);
    const Machine machine(cluster(nodes, per_node, 20e3));  // less than the weights take
    const FoundNetwork found = find_network(planned, machine, 4, quick());
    REQUIRE(found.plan.proved);
    REQUIRE(found.networks.contains("ring"));
    const double seconds = found.plan.plan.predicted->seconds;
    for (const auto& [name, known] : found.networks) {
      INFO(name);
      CHECK(seconds <= known * (1 + 1e-12));
    }
    const Machine joined(found.machine);
    REQUIRE(found.networks.contains("fat tree of like cost"));
    REQUIRE(found.name != "fat tree of like cost");
    CHECK(joined.rings().size() >= 2);
    plans::Simulation simulation(joined);
    simulate_plan(simulation, found.plan.plan, planned);
    CHECK(simulation.seconds() == Approx(seconds).epsilon(1e-12));
    std::vector<double> cables(nodes);
    for (const plans::Link& e : found.machine.cluster->edges)
      cables.at(e.from) += e.bytes_per_second / 1e8, cables.at(e.to) += e.bytes_per_second / 1e8;
    for (const double count : cables) CHECK(count <= 4 + 1e-9);
    const FoundNetwork again = find_network(planned, machine, 4, quick());
    CHECK(again.name == found.name);
    CHECK(again.plan.plan.predicted->seconds == seconds);
  }
}

// Nodes exchange their parts with all others, which pass many nodes of a ring.
TEST_CASE("a fat tree of like cost is the network where it is best") {
  RandomGraph g(1);
  ValueId x = g.input({64, 65536});
  for (const int axis : {1, 0, 1, 0, 1}) x = node(g.graph, "Softmax", {x}, {{"axis", Index(axis)}}).at(0);
  g.graph.add_output("y", node(g.graph, "ReduceSum", {x}, {{"axes", Indices{0, 1}}}).at(0));
  g.graph.tidy();
  const PlannedGraph planned = planned_for_inference(g.graph);
  // All-to-alls around a ring take time in proportion to its nodes.
  for (const std::size_t nodes : {8, 64}) {
    if (testing::kSanitized && nodes > 8) continue;  // the search would run out of time
    MachineDescription description = cluster(nodes, 1, 1e9);
    description.rates = plans::DeviceRates{2e9, 2e9};
    const Machine machine(description);
    const FoundNetwork found = find_network(planned, machine, 2, {.strategy = "auto", .seconds = 100, .seed = 3, .moves = 0});
    INFO(nodes << " nodes: " << found.name);
    REQUIRE(found.networks.contains("fat tree of like cost"));
    CHECK((found.name == "fat tree of like cost") == (nodes == 64));
    if (nodes == 64) {
      CHECK(found.machine.cluster->shape == "fat-tree:8");
      CHECK(found.machine.cluster->bytes_per_second == Approx(2 * 1e8 / 3));
    }
    const double seconds = found.plan.plan.predicted->seconds;
    CHECK(found.plan.plan.predicted->lower_bound <= seconds);
    for (const auto& [name, known] : found.networks) CHECK(seconds <= known * (1 + 1e-12));
    const Machine joined(found.machine);
    plans::Simulation simulation(joined);
    simulate_plan(simulation, found.plan.plan, planned);
    CHECK(simulation.seconds() == Approx(seconds).epsilon(1e-12));
  }
}

TEST_CASE("networks that cannot be looked for are refused") {
  const PlannedGraph planned = layers();
  const auto code = [&](MachineDescription description, std::size_t cables) {
    try {
      find_network(planned, Machine(std::move(description)), cables, quick());
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kBadInput;
  };
  CHECK(code(cluster(1, 4, 1e9), 4) == ErrorCode::kUsage);
  CHECK(code(cluster(8, 1, 1e9), 1) == ErrorCode::kUsage);
  MachineDescription edges = cluster(2, 1, 1e9);
  edges.cluster = {.shape = "edges", .edges = {{0, 1, 1e-6, 1e8}}};
  CHECK(code(edges, 2) == ErrorCode::kUsage);
}

}  // namespace rewright::runtime
