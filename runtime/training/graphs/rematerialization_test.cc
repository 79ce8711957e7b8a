#include "runtime/training/graphs/rematerialization.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "graph/builder.h"
#include "operators/testing.h"
#include "operators/testing/share.h"
#include "runtime/training/graphs/training_graph.h"

namespace rewright::training {
namespace {

using testing::random_tensor;

std::vector<NodeCost> costs_of(const Graph& graph) {
  CostModel model(nullptr, nullptr, {});
  return model.alone(MatchedGraph(graph, true));
}

std::size_t planned(const Graph& graph) {
  std::vector<NodeCost> costs = costs_of(graph);
  const Graph ordered = in_order_of_execution(graph, costs);
  return planned_bytes(ordered, costs);
}

// Layers on [rows, width] in random order: products, functions, normalizations, residual sums and reshapes.
Graph network(std::mt19937& random) {
  const std::int64_t rows = 32, width = 8;
  Graph g;
  NodeBuilder b(g);
  std::vector<ValueId> values{g.add_input("x", {DataType::kFloat, {rows, width}})};
  const auto any = [&] { return values[values.size() - 1 - random() % std::min<std::size_t>(values.size(), 3)]; };
  const auto weight = [&](Sizes sizes) { return g.add_constant(random_tensor(std::move(sizes), random, DataType::kFloat)); };
  const int layers = 6 + static_cast<int>(random() % 14);
  for (int n = 0; n < layers; ++n) switch (random() % 6) {
      case 0:
      case 1:
        values.push_back(b.add("MatMul", {any(), weight({width, width})}));
        break;
      case 2:
        values.push_back(b.add("Tanh", {any()}));
        break;
      case 3:
        values.push_back(b.add("Softmax", {any()}, {{"axis", Index(1)}}));
        break;
      case 4:
        values.push_back(b.add("Add", {any(), any()}));
        break;
      default: {
        const ValueId folded = b.add("Flatten", {any()}, {{"axis", Index(1)}});
        values.push_back(b.add("Sigmoid", {b.add("Mul", {folded, weight({width})})}));
      }
    }
  values.push_back(b.add("Add", {values.back(), values[values.size() / 2]}));
  g.add_output("y", b.add("MatMul", {values.back(), weight({width, 3})}));
  return g;
}

struct Step {
  Graph graph;
  std::vector<Tensor> inputs;
  explicit Step(std::mt19937& random) {
    TrainingGraphOptions options;
    options.update.method = random() % 2 ? UpdateMethod::kMomentum : UpdateMethod::kAdam;
    options.guarded = random() % 2 == 0;
    const Graph model = network(random);
    graph = random() % 2 ? make_training_graphs(model, "", options).step : make_training_graphs(model, "", options).gradients;
    for (const ValueId id : graph.inputs()) {
      const TensorType& type = graph.value(id).type;
      Sizes sizes;
      for (const Index& i : type.shape) sizes.push_back(i.value());
      if (type.type == DataType::kInt64)
        inputs.push_back(Tensor(Tensor::from_integers(type.type, sizes, std::vector<std::int64_t>(32, 1))));
      else if (sizes.empty())
        inputs.push_back(Tensor::scalar(type.type, 0.5));
      else
        inputs.push_back(random_tensor(sizes, random, type.type));
    }
    // Sums of squared gradients are not negative.
    for (std::size_t n = 0; n < inputs.size(); ++n)
      if (graph.value(graph.inputs()[n]).name.find("training.") == 0 && inputs[n].type() == DataType::kFloat)
        for (float& v : inputs[n].mutable_data<float>()) v = std::abs(v);
  }
};

TEST_CASE("a step in less memory computes the same bits") {
  std::mt19937 random(1);
  unsigned smaller = 0;
  for (unsigned n = 0; n < testing::instances(12); ++n) {
    const Step step(random);
    const std::vector<Tensor> wanted = interpret(step.graph, step.inputs);
    const std::size_t whole = planned(step.graph);
    for (const double part : {0.95, 0.8, 0.65}) {
      const auto budget = static_cast<std::size_t>(part * static_cast<double>(whole));
      Rematerialized result;
      try {
        result = rematerialize(step.graph, costs_of(step.graph), budget, 5, planned);
      } catch (const Error& e) {
        CHECK(e.code() == ErrorCode::kBadInput);
        CHECK(std::string(e.what()).find("the least that was found is") != std::string::npos);
        continue;
      }
      CHECK(planned(result.graph) <= budget);
      CHECK(result.peak_bytes <= budget);
      CHECK(result.seconds_again >= result.least_seconds_again * (1 - 1e-6));
      CHECK(interpret(result.graph, step.inputs) == wanted);
      smaller += result.nodes_again > 0;
    }
  }
  CHECK(smaller >= testing::instances(10));
}

TEST_CASE("what is computed again costs less with more memory, and nothing with all of it") {
  std::mt19937 random(2);
  for (int n = 0; n < 6; ++n) {
    const Step step(random);
    std::vector<NodeCost> costs = costs_of(step.graph);
    const Graph ordered = in_order_of_execution(step.graph, costs);
    const RecomputationProblem problem = make_recomputation_problem(ordered, costs, 8);
    const auto least = choose_least_memory(problem, 5);
    REQUIRE(least);
    double peak = 0;
    for (const auto& moment : problem.moments) {
      double bytes = moment.fixed_bytes;
      for (const auto& v : problem.values) {
        const int last = *std::max_element(v.last_in_stage.begin(), v.last_in_stage.end());
        const bool kept = moment.stage < 0 ? v.last_in_forward < moment.position && last >= 0 : last >= moment.position;
        bytes += kept ? v.bytes : 0;
      }
      peak = std::max(peak, bytes);
    }
    const auto all = choose_recomputations(problem, peak, 5);
    REQUIRE(all);
    CHECK(all->seconds == 0);
    CHECK(least->peak_bytes <= peak);
    CHECK(!choose_recomputations(problem, 0.9 * least->peak_bytes - 1, 1));
    double seconds = std::numeric_limits<double>::infinity();
    for (const double part : {0.0, 0.3, 0.6, 0.9}) {
      const double budget = least->peak_bytes + part * (peak - least->peak_bytes) + 1;
      const auto choice = choose_recomputations(problem, budget, 5);
      REQUIRE(choice);
      CHECK(choice->peak_bytes <= budget);
      CHECK(choice->seconds <= 1.02 * seconds + 1e-9);
      seconds = choice->seconds;
    }
  }
}

TEST_CASE("a graph in its order of execution computes the same") {
  std::mt19937 random(3);
  for (int n = 0; n < 10; ++n) {
    const Step step(random);
    std::vector<NodeCost> costs = costs_of(step.graph);
    const Graph ordered = in_order_of_execution(step.graph, costs);
    CHECK(ordered.nodes().size() == step.graph.nodes().size());
    CHECK(costs.size() == ordered.nodes().size());
    CHECK(ordered.hash() == step.graph.hash());
    CHECK(interpret(ordered, step.inputs) == interpret(step.graph, step.inputs));
  }
}

TEST_CASE("gradients are judged where they are computed, and updates come when all are known to be finite") {
  std::mt19937 random(4);
  const Graph model = network(random);
  const Graph step = make_training_graphs(model, "", {}).step;
  std::size_t first_judged = step.nodes().size(), judged = 0;
  for (std::size_t n = step.nodes().size(); n-- > 0;)
    if (step.nodes()[n]->op->name() == "ReduceL1") first_judged = n, ++judged;
  CHECK(judged > 1);
  CHECK(first_judged < 3 * step.nodes().size() / 4);
  const std::int32_t finite = step.producers()[step.outputs().back().value];
  for (std::size_t o = 1; o + 1 < step.outputs().size(); ++o) CHECK(step.producers()[step.outputs()[o].value] > finite);

  // Each update follows its gradient.
  TrainingGraphOptions unguarded;
  unguarded.guarded = false;
  const Graph free = make_training_graphs(model, "", unguarded).step;
  const std::int32_t judgement = free.producers()[free.outputs().back().value];
  std::size_t before = 0;
  for (std::size_t o = 1; o + 1 < free.outputs().size(); ++o) before += free.producers()[free.outputs()[o].value] < judgement;
  CHECK(before > 1);
}

}  // namespace
}  // namespace rewright::training
