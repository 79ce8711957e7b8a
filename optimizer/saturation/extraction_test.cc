#include "optimizer/saturation/extraction.h"

#include <catch2/catch.hpp>
#include <random>

#include "optimizer/integer_program/integer_program.h"
#include "optimizer/saturation/saturation.h"
#include "optimizer/saturation/testing.h"

namespace rewright::optimizer {

using testing::no_limits;

namespace {

// The cheapest choice by exhaustive search: for each needed class, each e-node that computes it.
class Exhaustive {
 public:
  explicit Exhaustive(const ExtractionProblem& problem) : problem_(problem), graph_(*problem.graph) {}

  double run() {
    std::vector<ClassId> needed;
    for (const GraphOutput& output : graph_.graph().outputs()) needed.push_back(graph_.find(graph_.value_of(output.value)));
    for (const Saving& saving : problem_.savings) most_saved_ += saving.seconds;
    go(needed, {}, 0);
    return best_;
  }

 private:
  bool given(ClassId id) const {
    if (graph_.constant(id)) return true;
    for (const ENodeId maker : graph_.makers(id))
      if (graph_.node(maker).leaf != kNoValue) return true;
    return false;
  }

  bool made(ClassId id, const std::vector<ENodeId>& chosen) const {
    if (given(id)) return true;
    for (const ENodeId maker : graph_.makers(id))
      if (std::find(chosen.begin(), chosen.end(), maker) != chosen.end()) return true;
    return false;
  }

  bool acyclic(std::vector<ENodeId> open) const {
    std::vector<bool> done(graph_.value_count());
    for (bool changed = true; changed && !open.empty();) {
      changed = false;
      std::erase_if(open, [&](ENodeId id) {
        for (const ClassId input : graph_.inputs(id))
          if (!given(graph_.find(input)) && !done[graph_.find(input)]) return false;
        for (const ClassId output : graph_.outputs(id)) done[graph_.find(output)] = true;
        return changed = true;
      });
    }
    return open.empty();
  }

  void go(std::vector<ClassId> needed, const std::vector<ENodeId>& chosen, double cost) {
    if (cost - most_saved_ >= best_ || ++steps_ > 2000000) return;
    while (!needed.empty() && made(needed.back(), chosen)) needed.pop_back();
    if (needed.empty()) {
      if (acyclic(chosen)) best_ = std::min(best_, problem_.savings.empty() ? cost : cost_of(problem_, chosen));
      return;
    }
    for (const ENodeId maker : graph_.makers(needed.back())) {
      std::vector<ClassId> next = needed;
      for (const ClassId input : graph_.inputs(maker)) next.push_back(graph_.find(input));
      std::vector<ENodeId> with = chosen;
      with.push_back(maker);
      // Needed classes are popped from the back; this class is computed now.
      next.erase(next.begin() + static_cast<std::ptrdiff_t>(needed.size()) - 1);
      go(next, with, cost + problem_.seconds[maker]);
    }
  }

  const ExtractionProblem& problem_;
  const EGraph& graph_;
  double best_ = 1e30, most_saved_ = 0;
  std::size_t steps_ = 0;
};

ExtractionProblem random_costs(const EGraph& graph, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  ExtractionProblem problem;
  problem.graph = &graph;
  for (ENodeId id = 0; id < graph.node_count(); ++id) problem.seconds.push_back(1 + static_cast<double>(random() % 20));
  return problem;
}

// Adds savings for pairs of e-nodes whose second is the first's only reader.
void add_random_savings(ExtractionProblem& problem, std::uint64_t seed) {
  const EGraph& graph = *problem.graph;
  std::mt19937_64 random(seed);
  for (ENodeId id = 0; id < graph.node_count(); ++id) {
    if (!graph.node(id).live || graph.node(id).leaf != kNoValue || graph.constant(graph.outputs(id)[0])) continue;
    const ClassId input = graph.find(graph.inputs(id)[random() % graph.inputs(id).size()]);
    for (const ENodeId below : graph.makers(input)) {
      if (below == id || graph.node(below).leaf != kNoValue || random() % 2 != 0) continue;
      problem.savings.push_back(
          {{below, id}, {id}, {input}, {}, problem.seconds[id] * static_cast<double>(1 + random() % 3) / 4});
    }
  }
  for (std::uint32_t s = 0; s + 1 < problem.savings.size(); s += 4) problem.savings[s].one_of = {s + 1};
}

}  // namespace

TEST_CASE("an integer program with a limit says what it knows") {
  IntegerProgram program;  // a knapsack
  const std::vector<std::pair<double, double>> items{{4, 3}, {5, 4}, {3, 2}, {7, 5}};
  std::vector<std::pair<int, double>> weights;
  for (const auto& [value, weight] : items) weights.emplace_back(program.add_variable(-value, 0, 1, true), weight);
  program.add_row(0, 7, weights);
  const IntegerProgram::Solution solution = program.minimize({}, {});
  CHECK(solution.status == IntegerProgram::Status::kOptimal);
  CHECK(solution.cost == Approx(-10));
  CHECK(solution.bound <= solution.cost);
  program.add_row(100, IntegerProgram::kInfinite, weights);
  CHECK(program.minimize({}, {}).status == IntegerProgram::Status::kNothing);
}

TEST_CASE("extraction finds the cheapest choice, shared e-nodes counted once and cycles left out") {
  const RuleIndex rules(testing::rules(testing::kCircularRules), {});
  std::size_t cyclic = 0, greedy_worse = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph = testing::random_graph(seed, 6);
    Saturation saturation(graph, rules, {.nodes = 40});
    Limits limits = no_limits();
    saturation.run(limits);
    const EGraph& e = saturation.graph();
    const ExtractionProblem problem = random_costs(e, seed);
    const Extraction found = extract(problem, {.gap = 1e-9, .nodes = 1000, .hopeless = 0});
    INFO("seed " << seed);
    CHECK(found.optimal);
    CHECK(found.seconds == Approx(Exhaustive(problem).run()));
    CHECK(found.bound == Approx(found.seconds).epsilon(1e-6));
    CHECK(found.seconds == Approx(cost_of(problem, found.chosen)));
    CHECK(found.seconds <= cost_of(problem, given_choice(problem)) + 1e-9);
    const std::vector<ENodeId> greedy = greedy_choice(problem);
    greedy_worse += cost_of(problem, greedy) > found.seconds + 1e-9;
    for (ENodeId id = 0; id < e.node_count(); ++id)
      for (const ClassId input : e.inputs(id)) cyclic += e.node(id).live && e.equal(input, e.outputs(id)[0]);
  }
  CHECK(cyclic > 0);
  CHECK(greedy_worse > 0);
}

TEST_CASE("extraction finds the cheapest choice where some cost less together") {
  const RuleIndex rules(testing::rules(testing::kCircularRules), {});
  std::size_t saved = 0, equal = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph = testing::random_graph(seed, 5);
    Saturation saturation(graph, rules, {.nodes = 30});
    Limits limits = no_limits();
    saturation.run(limits);
    ExtractionProblem problem = random_costs(saturation.graph(), seed);
    add_random_savings(problem, seed);
    const Extraction found = extract(problem, {.gap = 1e-9, .nodes = 1000, .iterations = 1000000, .hopeless = 0});
    INFO("seed " << seed);
    CHECK(found.optimal);
    // The exhaustive search never chooses a second e-node for a computed class, which may save more than it costs.
    const double tried = Exhaustive(problem).run();
    CHECK(found.seconds <= tried + 1e-9);
    equal += found.seconds > tried - 1e-9;
    CHECK(found.seconds == Approx(cost_of(problem, found.chosen)));
    CHECK(found.bound == Approx(found.seconds).epsilon(1e-6));
    ExtractionProblem alone = problem;
    alone.savings.clear();
    saved += cost_of(alone, found.chosen) > found.seconds + 1e-9;
  }
  CHECK(equal > 50);
  CHECK(saved > 10);
}

TEST_CASE("an extraction that is cut short by its work gives the same choice again") {
  const RuleIndex rules(testing::rules(testing::kCircularRules), {});
  std::size_t cut = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const Graph graph = testing::random_graph(seed, 12);
    Saturation saturation(graph, rules, {.nodes = 150});
    Limits limits = no_limits();
    saturation.run(limits);
    const ExtractionProblem problem = random_costs(saturation.graph(), seed);
    for (const std::int64_t iterations : {0, 10, 300}) {
      const ExtractionOptions options{.gap = 0, .iterations = iterations, .seconds = 1e6};
      const Extraction first = extract(problem, options), second = extract(problem, options);
      CHECK(first.chosen == second.chosen);
      CHECK(first.bound == second.bound);
      CHECK(first.iterations == second.iterations);
      CHECK(!first.timed_out);
      CHECK(first.seconds <=
            std::min(cost_of(problem, given_choice(problem)), cost_of(problem, greedy_choice(problem))) + 1e-9);
      CHECK(first.bound <= first.seconds);
      cut += !first.optimal;
    }
  }
  CHECK(cut > 0);
}

TEST_CASE("an extraction that is cut short is never worse than what it began with") {
  const RuleIndex rules(testing::rules(testing::kCircularRules), {});
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const Graph graph = testing::random_graph(seed, 12);
    Saturation saturation(graph, rules, {.nodes = 300});
    Limits limits = no_limits();
    saturation.run(limits);
    const ExtractionProblem problem = random_costs(saturation.graph(), seed);
    const Extraction found = extract(problem, {.nodes = 0, .seconds = 0});
    CHECK(found.seconds <= std::min(cost_of(problem, given_choice(problem)), cost_of(problem, greedy_choice(problem))) + 1e-9);
    CHECK(found.bound <= found.seconds + 1e-9);
    CertificateStep step = explain_choice(saturation, found.chosen);
    CHECK(apply_step(graph, rules, step));
  }
}

TEST_CASE("a saving counts where all it needs is chosen and nothing else reads what is between") {
  Graph graph;
  const ValueId x = graph.add_input("x", testing::floats({4, 4}));
  const ValueId p = testing::add(graph, "MatMul", {x, x})[0], r = testing::add(graph, "Relu", {p})[0],
                n = testing::add(graph, "Neg", {r})[0];
  graph.add_output("n", n);
  const auto cost = [](const Graph& g) {
    EGraph e(g, false);
    ExtractionProblem problem;
    problem.graph = &e;
    problem.seconds.assign(e.node_count(), 10);
    const ENodeId product = *e.node_at(0), relu = *e.node_at(1), negation = *e.node_at(2);
    problem.savings.push_back({{product, relu}, {relu}, {e.outputs(product)[0]}, {}, 4});
    problem.savings.push_back({{relu, negation}, {negation}, {e.outputs(relu)[0]}, {0}, 3});
    const Extraction found = extract(problem, {});
    CHECK(found.optimal);
    CHECK(found.bound == Approx(found.seconds));
    return found.seconds;
  };
  CHECK(cost(graph) == Approx(30 - 4 - 3));
  Graph shared = graph;
  shared.add_output("r", r);
  CHECK(cost(shared) == Approx(30 - 4));
  shared = graph;
  shared.add_output("p", p);
  CHECK(cost(shared) == Approx(30));  // the second depends on the first
}

}  // namespace rewright::optimizer
