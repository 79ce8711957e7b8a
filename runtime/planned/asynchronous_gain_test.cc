#include "runtime/planned/asynchronous_gain.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "plans/machines/machine_file.h"
#include "runtime/planned/planner.h"
#include "runtime/training/testing.h"

namespace rewright::runtime {
namespace {

using plans::Machine;

// Steps that workers do in so many seconds, each of which sends and computes at the same time.
std::size_t steps_done(const std::vector<double>& computing, double exchanging, double seconds) {
  std::size_t steps = 0;
  for (const double one : computing)
    for (double now = 0; (now += std::max(one, exchanging)) <= seconds;) ++steps;
  return steps;
}

}  // namespace

TEST_CASE("asynchronous workers take as many steps as is said") {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> any(0.5, 2);
  for (int trial = 0; trial < 50; ++trial) {
    const std::size_t n = 2 + random() % 9;
    const double computing = any(random), exchanging = any(random), slowness = 1 + any(random);
    const double seconds = computing + any(random), time = 2000;
    std::vector<double> workers(n, computing);
    workers[random() % n] *= slowness;
    // A plan's step is n of a worker's.
    const double of_plan =
        static_cast<double>(n) * time / (seconds + *std::max_element(workers.begin(), workers.end()) - computing);
    INFO(n << " workers");
    CHECK(asynchronous_gain(seconds, computing, exchanging, n, slowness) ==
          Approx(static_cast<double>(steps_done(workers, exchanging, time)) / of_plan).epsilon(0.01));
  }
}

TEST_CASE("asynchronous training gains most where a process is slow, and not where messages are long") {
  testing::ModelBuilder m(3);
  const ValueId x = m.graph.add_input("x", {DataType::kFloat, {32, 64}});
  const ValueId y = m.b.add("Tanh", {m.b.add("MatMul", {x, m.weights({64, 64}, "w1")})});
  m.graph.add_output("y", m.b.add("MatMul", {y, m.weights({64, 8}, "w2")}));
  const PlannedGraph planned =
      planned_for_training(training::make_training_graphs(m.graph, "", planned_training("mean-squared", "adam")));
  REQUIRE(planned.trained == 2);
  const double weights = 4 * (64 * 64 + 64 * 8);
  const auto gain = [&](double rate, double memory, std::size_t nodes, std::size_t per_node) {
    const Machine machine(
        plans::make_cluster(nodes, per_node, {1e9, 1e9}, memory, {1e-9, 10 * rate, "switch"}, {1e-9, rate, "switch"}));
    FoundPlan found = find_plan(planned, machine, {.strategy = "data", .seconds = 100, .seed = 1, .moves = 0});
    found.plan.purpose = "training";
    const plans::PlanPrediction& p = *found.plan.predicted;
    return std::pair(asynchronous_gain(found.plan, planned, machine), std::pair(p.seconds, p.computing_seconds));
  };
  const auto [fast, step] = gain(1e12, 1e9, 4, 1);
  REQUIRE(fast);
  CHECK(fast->even == Approx(1).epsilon(0.01));  // nothing to wait for
  CHECK(fast->straggler == Approx(2 * 3.5 / 4).epsilon(0.01));
  const double rate = 5e6;
  for (const std::size_t per_node : {1, 2}) {
    const auto [slow, known] = gain(rate, 1e9, 4, per_node);
    REQUIRE(slow);
    const double moved = static_cast<double>(per_node) * weights * 3 / 4 / rate;
    REQUIRE(moved > 2 * known.second[0]);
    CHECK(slow->even == Approx(known.first / moved).epsilon(1e-3));
    CHECK(slow->straggler == Approx((known.first + known.second[0]) / moved).epsilon(1e-3));
  }
  CHECK(!gain(1e12, 1e9, 1, 1).first);
  const Machine small(plans::make_cluster(4, 1, {1e9, 1e9}, weights, {1e-9, 1e12, "switch"}, {1e-9, 1e12, "switch"}));
  plans::Plan plan;
  plan.purpose = "training", plan.processes = 4, plan.predicted.emplace();
  plan.predicted->seconds = 1, plan.predicted->computing_seconds.assign(4, 1);
  CHECK(!asynchronous_gain(plan, planned, small));
  plan.purpose = "inference";
  CHECK(!asynchronous_gain(
      plan, planned, Machine(plans::make_cluster(4, 1, {1e9, 1e9}, 1e9, {1e-9, 1e12, "switch"}, {1e-9, 1e12, "switch"}))));
}

}  // namespace rewright::runtime
