#include "optimizer/saturation/saturation.h"

#include <catch2/catch.hpp>

#include "optimizer/optimize.h"
#include "optimizer/saturation/testing.h"

namespace rewright::optimizer {

using testing::no_limits;

namespace {

void check_same_results(const Graph& a, const Graph& b) {
  const std::vector<Tensor> inputs = random_inputs(a, {}, 3);
  const std::vector<Tensor> expected = interpret(a, inputs), found = interpret(b, inputs);
  REQUIRE(expected.size() == found.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::vector<double> x = expected[i].reals(), y = found[i].reals();
    REQUIRE(x.size() == y.size());
    double largest = 1;
    for (const double element : x) largest = std::max(largest, std::abs(element));
    for (std::size_t k = 0; k < x.size(); ++k) CHECK(std::abs(y[k] - x[k]) <= 1e-4 * largest);
  }
}

// A random choice that computes the outputs: in each round, e-nodes with computed inputs, in a random order.
std::vector<ENodeId> random_choice(const EGraph& graph, std::mt19937_64& random) {
  std::vector<bool> made(graph.value_count());
  std::vector<ENodeId> open, chosen;
  for (ENodeId id = 0; id < graph.node_count(); ++id) {
    if (graph.node(id).leaf != kNoValue)
      made[graph.find(graph.outputs(id)[0])] = true;
    else if (graph.node(id).live)
      open.push_back(id);
  }
  std::shuffle(open.begin(), open.end(), random);
  for (bool changed = true; changed;) {
    changed = false;
    for (const ENodeId id : open) {
      bool ready = true, adds = false;
      for (const ClassId input : graph.inputs(id)) ready = ready && (input == kNoClass || made[graph.find(input)]);
      for (const ClassId output : graph.outputs(id)) adds = adds || !made[graph.find(output)];
      if (!ready || !adds) continue;
      for (const ClassId output : graph.outputs(id)) made[graph.find(output)] = true;
      chosen.push_back(id);
      changed = true;
    }
  }
  return chosen;
}

}  // namespace

TEST_CASE("whatever is chosen computes the same, and the rewrites that say so do it again") {
  const RuleIndex rules(testing::rules(testing::kCircularRules), {});
  std::size_t rewritten = 0, exchanged = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Graph graph = testing::random_graph(seed, 10);
    Saturation saturation(graph, rules, {.nodes = 300});
    Limits limits = no_limits();
    const StopReason reason = saturation.run(limits);
    CHECK((reason == StopReason::kSaturated || reason == StopReason::kNodes));
    const std::optional<std::string> violation = saturation.graph().violation();
    INFO("seed " << seed << ": " << violation.value_or(""));
    REQUIRE(!violation);
    std::mt19937_64 random(seed);
    for (int trial = 0; trial < 4; ++trial) {
      CertificateStep step = explain_choice(saturation, random_choice(saturation.graph(), random));
      const std::optional<Graph> result = apply_step(graph, rules, step);
      REQUIRE(result);
      check_same_results(graph, *result);
      rewritten += result->hash() != graph.hash();
      for (const Rewrite& rewrite : step.rewrites) exchanged += rewrite.swapped != 0;
      CHECK(step.rewrites.size() <= saturation.applications().size());
    }
  }
  CHECK(rewritten > 80);
  CHECK(exchanged > 0);
}

TEST_CASE("a rewrite that does not fit where a step says is refused") {
  const RuleIndex rules(testing::rules(testing::kCircularRules), {});
  const Graph graph = testing::adapters(1, 6, 2);
  Saturation saturation(graph, rules, {.nodes = 300});
  Limits limits = no_limits();
  saturation.run(limits);
  std::mt19937_64 random(1);
  CertificateStep step;
  while (step.rewrites.empty()) step = explain_choice(saturation, random_choice(saturation.graph(), random));
  REQUIRE(apply_step(graph, rules, step));
  CertificateStep other = step;
  std::swap(other.rewrites[0].where[0], other.rewrites[0].where.back());
  CHECK(!apply_step(graph, rules, other));
  other = step;
  other.rewrites[0].rule_hash ^= 1;
  CHECK(!apply_step(graph, rules, other));
  other = step;
  other.rewrites[0].where[0] = 1000000;
  CHECK(!apply_step(graph, rules, other));
  other = step;
  other.chosen.clear();
  CHECK(!apply_step(graph, rules, other));
  other = step;
  std::reverse(other.chosen.begin(), other.chosen.end());
  CHECK(!apply_step(graph, rules, other));
  other = step;
  other.rewrites.clear();
  CHECK(!apply_step(graph, rules, other));
}

TEST_CASE("two roots are matched together") {
  const RuleIndex rules(testing::rules(testing::kCircularRules), {});
  Graph graph;
  const ValueId x = graph.add_input("x", testing::floats({4, 3}));
  const ValueId a = graph.add_constant(testing::weights({3, 2}, 1)), b = graph.add_constant(testing::weights({3, 5}, 2));
  graph.add_output("p", testing::add(graph, "MatMul", {x, a})[0]);
  graph.add_output("q", testing::add(graph, "MatMul", {x, b})[0]);
  Saturation saturation(graph, rules, {.joint_iterations = 1});
  Limits limits = no_limits();
  CHECK(saturation.run(limits) == StopReason::kSaturated);
  const EGraph& e = saturation.graph();
  std::size_t splits = 0;
  for (const GraphOutput& output : graph.outputs())
    for (const ENodeId id : e.makers(e.find(e.value_of(output.value))))
      splits += e.node(id).op && e.node(id).op->name() == "Split";
  CHECK(splits == 4);  // both orders of the two
}

TEST_CASE("a saturation stops for the reason it says") {
  const RuleIndex rules(testing::rules(testing::kCircularRules), {});
  const Graph graph = testing::random_graph(3, 9);
  const auto run = [&](const SaturationOptions& options, Limits limits) {
    Saturation saturation(graph, rules, options);
    const StopReason reason = saturation.run(limits);
    CHECK(!saturation.graph().violation());
    return reason;
  };
  const auto never = std::chrono::steady_clock::time_point::max();
  CHECK(run({.nodes = 20000, .iterations = 100, .joint_iterations = 0}, no_limits()) == StopReason::kSaturated);
  CHECK(run({.nodes = 15}, no_limits()) == StopReason::kNodes);
  CHECK(run({.nodes = 20000, .iterations = 1}, no_limits()) == StopReason::kDone);
  CHECK(run({}, Limits(std::chrono::steady_clock::now(), std::size_t{1} << 40, {})) == StopReason::kTime);
  CHECK(run({}, Limits(never, 1, {})) == StopReason::kMemory);
  std::stop_source stop;
  stop.request_stop();
  CHECK(run({}, Limits(never, std::size_t{1} << 40, stop.get_token())) == StopReason::kCancelled);
}

TEST_CASE("rules that are banned for a while come back: the result is the same") {
  const RuleIndex rules(testing::rules(testing::kCircularRules), {});
  const Graph graph = testing::random_graph(5, 8);
  const auto classes = [&](std::size_t matches) {
    Saturation saturation(graph, rules, {.nodes = 20000, .iterations = 200, .matches = matches, .joint_iterations = 0});
    Limits limits = no_limits();
    CHECK(saturation.run(limits) == StopReason::kSaturated);
    return saturation.graph().live_count();
  };
  CHECK(classes(20000) == classes(3));
}

// Timed by bench/search.
TEST_CASE("a hundred thousand e-nodes", "[.large]") {
  const RuleIndex rules(testing::rules(testing::kCircularRules), {});
  Graph graph;
  ValueId sum = graph.add_input("x0", testing::floats({2, 2}));
  for (int i = 1; i < 14; ++i)
    sum = testing::add(graph, "Add", {sum, graph.add_input("x" + std::to_string(i), testing::floats({2, 2}))})[0];
  graph.add_output("sum", sum);
  Saturation saturation(graph, rules, {.nodes = 100000, .iterations = 100, .matches = 1000000});
  Limits limits = no_limits();
  CHECK(saturation.run(limits) == StopReason::kNodes);
  CHECK(saturation.graph().live_count() >= 100000);
}

}  // namespace rewright::optimizer
