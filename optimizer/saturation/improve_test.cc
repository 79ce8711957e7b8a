#include "optimizer/saturation/improve.h"

#include <catch2/catch.hpp>
#include <set>

#include "operators/testing/share.h"
#include "optimizer/certificates/replay.h"
#include "optimizer/optimize.h"
#include "optimizer/saturation/costs.h"
#include "optimizer/saturation/testing.h"
#include "optimizer/search/search.h"

namespace rewright::optimizer {

using testing::no_limits;

namespace {

double cost_of_graph(CostModel& costs, const Graph& graph) {
  const MatchedGraph facts(graph, false);
  return costs.cost(facts);
}

// The cheapest of all graphs reachable by rewrites.
std::optional<double> exhaustive(const Graph& start, const RuleIndex& rules, CostModel& costs, std::size_t most) {
  Matcher matcher(rules);
  std::vector<Graph> graphs{start};
  std::set<std::uint64_t> seen{start.hash()};
  double best = cost_of_graph(costs, start);
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    const Graph graph = graphs[i];
    const MatchedGraph facts(graph, false);
    for (const Match& match : matcher.find(facts)) {
      std::optional<Graph> next = apply(graph, rules.rules()[match.rule], match);
      if (!next || !seen.insert(next->hash()).second) continue;
      best = std::min(best, cost_of_graph(costs, *next));
      graphs.push_back(std::move(*next));
      if (graphs.size() > most) return std::nullopt;
    }
  }
  return best;
}

}  // namespace

// Rewriting a graph removes the source, so it is not done if something else reads an inner value: among graphs where nothing is
// read twice the strategies agree. Rewrites may lead to other graphs, where only saturation continues.
TEST_CASE("saturation and backtracking find what trying all graphs finds") {
  const RuleIndex rules(testing::rules(testing::kCircularRules), {});
  std::size_t compared = 0, gained = 0, agreed = 0;
  for (std::uint64_t seed = 0; compared < 100; ++seed) {
    REQUIRE(seed < 1000);
    const Graph graph = testing::random_graph(seed, 9, true);
    CostModel costs(nullptr, nullptr, {});
    const std::optional<double> best = exhaustive(graph, rules, costs, 150);
    if (!best) continue;
    ++compared;
    INFO("seed " << seed << "\n" << to_string(graph));
    const double before = cost_of_graph(costs, graph);
    gained += *best < before * (1 - 1e-6);
    for (const Strategy strategy : {Strategy::kBacktrack, Strategy::kSaturate, Strategy::kAuto}) {
      if (strategy == Strategy::kAuto && compared % 4 != 0) continue;  // it combines the others
      SearchOptions options;
      options.strategy = strategy;
      options.alpha = 3;
      options.patience = 100;
      options.saturation.saturation.nodes = 3000;
      options.saturation.extraction.gap = 1e-9;
      options.saturation.extraction.nodes = 1000;
      CostModel fresh(nullptr, nullptr, {});
      const SearchResult found = search(graph, rules, fresh, options);
      INFO(name(strategy));
      CHECK(found.cost <= *best * (1 + 1e-6));
      if (strategy == Strategy::kBacktrack) CHECK(found.cost == Approx(*best).epsilon(1e-6));
      if (strategy == Strategy::kSaturate) agreed += found.cost >= *best * (1 - 1e-6);
    }
  }
  CHECK(gained > 20);
  CHECK(agreed >= 95);
}

TEST_CASE("auto finds no less than saturation") {
  constexpr std::uint64_t kGraphs = testing::kSanitized ? 2 : 8;
  const RuleIndex rules(testing::rules(testing::kCircularRules), {});
  for (std::uint64_t seed = 0; seed < kGraphs; ++seed) {
    const Graph graph = testing::random_graph(seed, 12);
    const auto cost = [&](Strategy strategy) {
      SearchOptions options;
      options.strategy = strategy;
      options.saturation.saturation.nodes = 150;
      CostModel costs(nullptr, nullptr, {});
      const SearchResult found = search(graph, rules, costs, options);
      CHECK(found.cost == Approx(cost_of_graph(costs, found.graph)));
      CHECK(found.cost_before == Approx(cost_of_graph(costs, graph)));
      for (const Milestone& milestone : found.milestones) CHECK(milestone.cost >= found.cost);
      return found.cost;
    };
    INFO("seed " << seed);
    CHECK(cost(Strategy::kAuto) <= cost(Strategy::kSaturate) * (1 + 1e-9));
  }
}

TEST_CASE("a choice costs what its graph costs") {
  const RuleIndex rules(testing::rules(testing::kCircularRules), {});
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Graph graph = testing::random_graph(seed, 10);
    CostModel costs(nullptr, nullptr, {});
    Saturation saturation(graph, rules, {.nodes = 200});
    Limits limits = no_limits();
    saturation.run(limits);
    const ExtractionProblem problem = make_problem(saturation.graph(), costs, false);
    const Extraction found = extract(problem, {});
    for (const std::vector<ENodeId>& choice : {given_choice(problem), greedy_choice(problem), found.chosen}) {
      CertificateStep step = explain_choice(saturation, choice);
      const std::optional<Graph> chosen = apply_step(graph, rules, step);
      REQUIRE(chosen);
      INFO("seed " << seed);
      CHECK(cost_of(problem, choice) == Approx(cost_of_graph(costs, *chosen)).epsilon(1e-6));
    }
  }
}

TEST_CASE("where strides are taken a choice never costs less than its graph") {
  const RuleIndex rules(testing::rules(testing::kCircularRules), {});
  std::size_t free = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Graph graph = testing::random_graph(seed, 10);
    testing::RooflineDevice device;
    device.strided = StridedReads::kWindows;
    CostModel costs(&device, nullptr, {}), plain(nullptr, nullptr, {});
    Saturation saturation(graph, rules, {.nodes = 200});
    Limits limits = no_limits();
    saturation.run(limits);
    const ExtractionProblem problem = make_problem(saturation.graph(), costs, false);
    for (const std::vector<ENodeId>& choice : {given_choice(problem), greedy_choice(problem)}) {
      CertificateStep step = explain_choice(saturation, choice);
      const std::optional<Graph> chosen = apply_step(graph, rules, step);
      REQUIRE(chosen);
      INFO("seed " << seed);
      CHECK(cost_of(problem, choice) >= cost_of_graph(costs, *chosen) * (1 - 1e-6));
      free += cost_of(problem, choice) < cost_of_graph(plain, *chosen) * (1 - 1e-3);
    }
  }
  CHECK(free > 5);
}

TEST_CASE("adapters are merged into their weights by saturation, and the certificate does it again") {
  const Graph graph = testing::adapters(4, 16, 4);
  for (const Strategy strategy : {Strategy::kSaturate, Strategy::kAuto}) {
    testing::RooflineDevice device;
    const auto evaluator = make_reference_evaluator();
    OptimizeOptions options;
    options.strategy = strategy;
    const OptimizeResult result = optimize(graph, testing::rules(), device, *evaluator, nullptr, options);
    CHECK(result.report.changed);
    CHECK(result.report.check.ok);
    CHECK(result.report.nodes_after == 8);  // each with a product and a relu
    CHECK(result.report.strategy == name(strategy));
    CHECK(result.report.e_nodes > 0);
    const Certificate read = parse_certificate(to_json(result.certificate), "certificate");
    CHECK(replay(graph, read, testing::rules(), *evaluator).hash() == result.graph.hash());
    std::size_t saturations = 0;
    for (const CertificateStep& step : result.certificate.steps) saturations += step.kind == CertificateStep::Kind::kSaturate;
    if (strategy == Strategy::kSaturate) {
      REQUIRE(saturations > 0);
      Certificate damaged = read;
      for (CertificateStep& step : damaged.steps)
        if (step.kind == CertificateStep::Kind::kSaturate) step.chosen.pop_back();
      CHECK_THROWS_AS(replay(graph, damaged, testing::rules(), *evaluator), Error);
    }
  }
}

TEST_CASE("each strategy gives the same graph and steps twice") {
  const Graph graph = testing::random_graph(11, 14);
  const RuleIndex rules(testing::rules(testing::kCircularRules), {});
  for (const Strategy strategy : {Strategy::kSaturate, Strategy::kAuto}) {
    const auto run = [&] {
      SearchOptions options;
      options.strategy = strategy;
      CostModel costs(nullptr, nullptr, {});
      const SearchResult found = search(graph, rules, costs, options);
      Certificate certificate;
      certificate.steps = found.steps;
      return std::pair(found.graph.hash(), to_json(certificate));
    };
    CHECK(run() == run());
  }
}

TEST_CASE("a search by saturation stops for the reason it says, with its best so far") {
  const Graph graph = testing::adapters(6, 16, 4);
  const RuleIndex rules(testing::rules(), {});
  const auto run = [&](SearchOptions options) {
    options.strategy = Strategy::kSaturate;
    CostModel costs(nullptr, nullptr, {});
    return search(graph, rules, costs, options);
  };
  SearchOptions options;
  CHECK(run(options).stop_reason == StopReason::kSaturated);
  options.saturation.saturation.nodes = 3;
  CHECK(run(options).stop_reason == StopReason::kNodes);
  options = {};
  options.saturation.saturation.iterations = 1;
  CHECK(run(options).stop_reason == StopReason::kDone);
  options = {};
  options.deadline = std::chrono::steady_clock::now();
  CHECK(run(options).stop_reason == StopReason::kTime);
  options = {};
  options.saturation.extraction.seconds = 0;  // results must not depend on time
  CHECK(run(options).stop_reason == StopReason::kTime);
  options = {};
  options.memory = 1;
  CHECK(run(options).stop_reason == StopReason::kMemory);
  options = {};
  std::stop_source stop;
  options.cancel = stop.get_token();
  options.region_nodes = 6;
  options.progress = [&](const SearchProgress& progress) {
    if (progress.cost < progress.cost_before) stop.request_stop();
  };
  const SearchResult part = run(options);
  CHECK(part.stop_reason == StopReason::kCancelled);
  CHECK(part.cost < part.cost_before);
}

TEST_CASE("what was estimated is measured before it is chosen for good") {
  const Graph graph = testing::adapters(2, 16, 4);
  const RuleIndex rules(testing::rules(), {});
  testing::RooflineDevice device;
  CostDatabase database{""};
  CostModel costs(&device, &database, {});
  Limits limits = no_limits();
  Improvement found = improve(graph, rules, costs, {}, limits);
  REQUIRE((found.step && !found.step->rewrites.empty()));
  const std::optional<Graph> rewritten = apply_step(graph, rules, *found.step);
  REQUIRE(rewritten);
  const std::size_t timed = device.timed;
  const MatchedGraph facts(*rewritten, false);
  const MatchedGraph* const one = &facts;
  costs.prepare({&one, 1});
  CHECK(device.timed == timed);  // everything was measured
  CHECK(costs.cost(facts) == Approx(found.seconds));
  CHECK(found.bound <= found.seconds * (1 + 1e-6));
  CHECK(found.optimal);
}

}  // namespace rewright::optimizer
