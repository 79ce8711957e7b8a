// Searches with several threads, and their copies of the cost model.
#include <catch2/catch.hpp>

#include "operators/testing/share.h"
#include "optimizer/certificates/certificate.h"
#include "optimizer/saturation/testing.h"
#include "optimizer/search/search.h"

namespace rewright::optimizer {

using testing::add;
using testing::floats;
using testing::weights;

namespace {

// Times are known without measuring, as from a profile; several threads may ask.
class KnownDevice final : public testing::RooflineDevice {
 public:
  std::vector<std::optional<double>> time_nodes(std::span<const NodeSample> samples) override {
    std::vector<std::optional<double>> seconds;
    for (const NodeSample& sample : samples)
      seconds.push_back(CostModel(nullptr, nullptr, {}).cost(MatchedGraph(sample.graph, false)));
    return seconds;
  }
  bool measures() const override { return false; }
};

struct Facts {
  std::uint64_t graph;
  std::string steps;
  std::size_t explored, regions, reused, e_nodes;
  bool operator==(const Facts&) const = default;
};

Facts facts_of(const SearchResult& result) {
  Certificate certificate;
  certificate.steps = result.steps;
  return {result.graph.hash(), to_json(certificate),  result.graphs_explored,
          result.regions,      result.regions_reused, result.e_nodes};
}

double cost_of(CostModel& costs, const Graph& graph) {
  const MatchedGraph facts(graph, false);
  const MatchedGraph* const one = &facts;
  costs.prepare({&one, 1});
  return costs.cost(facts);
}

}  // namespace

TEST_CASE("any number of threads finds the same, step by step") {
  constexpr std::size_t kChanged = testing::kSanitized ? 1 : 3;
  const RuleIndex rules(testing::rules(testing::kCircularRules), {});
  std::size_t changed = 0;  // graphs that every strategy rewrote
  for (std::uint64_t seed = 0; changed < kChanged; ++seed) {
    REQUIRE(seed < 30);
    std::size_t rewritten = 0;
    const Graph graph = testing::random_graph(seed, 24);
    for (const Strategy strategy : {Strategy::kBacktrack, Strategy::kSaturate, Strategy::kAuto}) {
      const auto run = [&](Device& device, CostDatabase* database, int threads) {
        SearchOptions options;
        options.strategy = strategy;
        options.region_nodes = 5;
        options.saturation.saturation.nodes = 100;
        options.threads = threads;
        CostModel costs(&device, database, {});
        const SearchResult found = search(graph, rules, costs, options);
        return facts_of(found);
      };
      INFO("seed " << seed << ", " << name(strategy));
      KnownDevice known;
      known.strided = StridedReads::kWindows;
      const Facts one = run(known, nullptr, 1);
      rewritten += one.graph != graph.hash();
      CHECK(run(known, nullptr, 2) == one);
      CHECK(run(known, nullptr, 5) == one);

      // Costs are measured during the search, or are all known.
      testing::RooflineDevice device;
      CostDatabase first{""}, second{""};
      const Facts measured = run(device, &first, 1);
      CHECK(run(device, &second, 3) == measured);
      const std::size_t timed = device.timed;
      const Facts again = run(device, &first, 1);
      CHECK(run(device, &second, 3) == again);
      if (strategy == Strategy::kBacktrack) CHECK(device.timed == timed);
    }
    changed += rewritten == 3;
  }
}

TEST_CASE("a fork of a cost model knows what its origin knows, and does not measure") {
  testing::RooflineDevice device;
  CostDatabase database{""};
  CostModel costs(&device, &database, {});
  const Graph graph = testing::adapters(2, 16, 4), other = testing::random_graph(3, 8);
  const double cost = cost_of(costs, graph);
  CostFork fork(costs);
  std::optional<double> of_fork;
  const auto ask = [&](CostFork& asked, const Graph& about) {
    asked.run([&](CostModel& model) { of_fork = model.measured_cost(MatchedGraph(about, false)); });
    return of_fork;
  };
  const std::size_t timed = device.timed;
  CHECK(ask(fork, graph) == cost);
  CHECK(ask(fork, other) == std::nullopt);
  CHECK(ask(fork, graph) == cost);
  CHECK(device.timed == timed);
  // It takes over what its origin measures later, or finds it in the database.
  const double of_other = cost_of(costs, other);
  CHECK(device.timed > timed);
  fork.update();
  CHECK(ask(fork, other) == of_other);
  const CostModel late(&device, &database, {});
  CostFork of_late(late);
  CHECK(ask(of_late, other) == of_other);
}

// Merging products of one input and splitting the result gains at once where splitting is free. Adding them up gains more, but
// the sums must first be reordered, which gains nothing.
TEST_CASE("in a large graph what gains at once does not stand in the way") {
  Graph graph;
  ValueId x = graph.add_input("x", floats({3, 3}));
  const ValueId z = graph.add_input("z", floats({3, 3}));
  for (int layer = 0; layer < 80; ++layer) {
    const auto product = [&](int seed) { return add(graph, "MatMul", {x, graph.add_constant(weights({3, 3}, seed))})[0]; };
    const ValueId sum = add(graph, "Add", {add(graph, "Add", {product(layer), z})[0], product(layer + 3)})[0];
    x = add(graph, "Relu", {sum})[0];
  }
  graph.add_output("y", x);
  const RuleIndex rules(testing::rules(testing::kCircularRules), {});
  const auto cost = [&](Strategy strategy, double alpha, std::size_t patience) {
    KnownDevice device;
    device.strided = StridedReads::kWindows;
    CostModel costs(&device, nullptr, {});
    SearchOptions options;
    options.strategy = strategy;
    options.alpha = alpha;
    options.patience = patience;
    options.saturation.saturation.nodes = 200;
    return search(graph, rules, costs, options).cost;
  };
  const double found = cost(Strategy::kAuto, 1.05, 24), at_once = cost(Strategy::kBacktrack, 1, 1);
  CHECK(at_once > found * 1.05);
  CHECK(found <= cost(Strategy::kSaturate, 1.05, 24) * (1 + 1e-9));
}

}  // namespace rewright::optimizer
