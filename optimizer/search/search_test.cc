#include "optimizer/search/search.h"

#include <catch2/catch.hpp>
#include <random>
#include <utility>
#include <vector>

#include "optimizer/optimize.h"
#include "optimizer/testing.h"

namespace rewright::optimizer {

using testing::add;
using testing::floats;
using testing::weights;

namespace {

std::size_t varying_nodes(const Graph& graph) {
  const std::vector<bool> constant = graph.constant_values();
  std::size_t count = 0;
  for (const auto& node : graph.nodes()) count += !constant[node->outputs[0]];
  return count;
}

void check_same_results(const Graph& a, const Graph& b) {
  const std::vector<Tensor> inputs = random_inputs(a, {}, 3);
  const std::vector<Tensor> expected = interpret(a, inputs), found = interpret(b, inputs);
  REQUIRE(expected.size() == found.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::vector<double> x = expected[i].reals(), y = found[i].reals();
    REQUIRE(x.size() == y.size());
    for (std::size_t k = 0; k < x.size(); ++k) CHECK(y[k] == Approx(x[k]).epsilon(1e-3).margin(1e-3));
  }
}

SearchResult run(const Graph& graph, const SearchOptions& options = {}, std::vector<Rule> rules = testing::rules()) {
  const RuleIndex index(std::move(rules), {});
  testing::RooflineDevice device;
  CostModel costs(&device, nullptr, {});
  return search(graph, index, costs, options);
}

}  // namespace

TEST_CASE("adapters are merged into their weights, layer after layer") {
  const Graph graph = testing::adapters(8, 16, 4);
  const SearchResult result = run(graph);
  CHECK(result.stop_reason == StopReason::kDone);
  CHECK(result.cost < result.cost_before);
  CHECK(varying_nodes(result.graph) == 16);  // a product and a relu each
  CHECK(result.regions_reused > 0);
  check_same_results(graph, result.graph);
}

TEST_CASE("the same search twice gives the same graph and the same steps") {
  const Graph graph = testing::adapters(5, 16, 4);
  const SearchResult first = run(graph), second = run(graph);
  CHECK(first.graph.hash() == second.graph.hash());
  REQUIRE(first.steps.size() == second.steps.size());
  for (std::size_t i = 0; i < first.steps.size(); ++i) CHECK(first.steps[i].region == second.steps[i].region);
}

TEST_CASE("later rules are used where the others find nothing more, by auto alone") {
  const Graph graph = testing::adapters(2, 16, 4);
  std::vector<Rule> later = testing::rules();
  for (Rule& rule : later) rule.later = true;
  SearchOptions options;
  for (const Strategy strategy : {Strategy::kBacktrack, Strategy::kSaturate}) {
    options.strategy = strategy;
    const SearchResult without = run(graph, options, later);
    CHECK(without.cost == without.cost_before);
    CHECK(without.steps.empty());
  }
  options.strategy = Strategy::kAuto;
  const SearchResult with = run(graph, options, later);
  CHECK(with.cost < with.cost_before);
  check_same_results(graph, with.graph);
  CHECK(with.cost_before == run(graph, options).cost_before);
}

TEST_CASE("a cancelled search returns what it has") {
  std::stop_source stop;
  SearchOptions options;
  options.cancel = stop.get_token();
  const Graph graph = testing::adapters(8, 16, 4);
  stop.request_stop();
  const SearchResult result = run(graph, options);
  CHECK(result.stop_reason == StopReason::kCancelled);
  CHECK(result.graph.hash() == graph.hash());

  std::stop_source later;
  options.cancel = later.get_token();
  options.region_nodes = 6;
  options.progress = [&](const SearchProgress& progress) {
    if (progress.cost < progress.cost_before) later.request_stop();
  };
  const SearchResult part = run(graph, options);
  CHECK(part.stop_reason == StopReason::kCancelled);
  CHECK(part.cost < part.cost_before);
  check_same_results(graph, part.graph);
}

TEST_CASE("time and memory end a search") {
  const Graph graph = testing::adapters(8, 16, 4);
  SearchOptions options;
  options.deadline = std::chrono::steady_clock::now();
  CHECK(run(graph, options).stop_reason == StopReason::kTime);
  options.deadline = std::chrono::steady_clock::time_point::max();
  options.memory = 1;
  CHECK(run(graph, options).stop_reason == StopReason::kMemory);
}

TEST_CASE("searches on random graphs keep inputs, outputs and results") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 40; ++round) {
    Graph graph;
    std::vector<ValueId> values{graph.add_input("x", floats({3, 4})), graph.add_input("z", floats({3, 4}))};
    const auto pick = [&] { return values[random() % values.size()]; };
    for (int n = 0; n < 12; ++n) {
      const int seed = static_cast<int>(random() % 5);
      switch (random() % 5) {
        case 0:
          values.push_back(add(graph, "Relu", {pick()})[0]);
          break;
        case 1:
          values.push_back(add(graph, "Add", {pick(), pick()})[0]);
          break;
        case 2:
          values.push_back(add(graph, "MatMul", {pick(), graph.add_constant(weights({4, 4}, seed))})[0]);
          break;
        case 3:
          values.push_back(add(graph, "Mul", {pick(), graph.add_constant(weights({}, seed))})[0]);
          break;
        case 4:
          values.push_back(add(graph, "Add", {pick(), graph.add_constant(weights({4}, seed))})[0]);
          break;
      }
    }
    graph.add_output("last", values.back());
    graph.add_output("other", pick());
    graph.tidy();
    SearchOptions options;
    options.patience = 8;
    options.region_nodes = 6;
    const SearchResult result = run(graph, options);
    CHECK(result.cost <= result.cost_before);
    CHECK(result.graph.inputs().size() == 2);
    CHECK(result.graph.outputs()[0].name == "last");
    CHECK(result.graph.outputs()[1].name == "other");
    check_same_results(graph, result.graph);
  }
}

}  // namespace rewright::optimizer
