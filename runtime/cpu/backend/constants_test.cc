// Constants evaluated by kernels decide as operator-by-operator interpretation does.
#include <algorithm>

#include <catch2/catch.hpp>

#include "optimizer/folding/fold.h"
#include "optimizer/folding/testing.h"
#include "runtime/cpu/backend/backend.h"
#include "runtime/cpu/backend/evaluator.h"
#include "runtime/testing.h"

namespace rewright::cpu {

using testing::add;
using testing::cast;
using testing::RandomConstants;
using testing::real_constant;

namespace {

bool graph_has_halves(const Graph& graph) {
  return std::any_of(graph.outputs().begin(), graph.outputs().end(),
                     [](const GraphOutput& output) { return output.type.type == DataType::kHalf; });
}

}  // namespace

TEST_CASE("constants that become integers and truth values are those of the interpreter") {
  const auto evaluator = make_cpu_evaluator();
  int compared = 0;
  for (std::uint64_t seed = 1000; seed < 1080; ++seed) {
    INFO(seed);
    const Graph graph = RandomConstants(seed).run();
    if (graph.outputs().empty()) continue;
    const std::vector<Tensor> executed = interpret(graph, {});
    const std::vector<Tensor> by_session = cpu_backend().prepare(graph)->run({});
    std::vector<ValueId> all;
    for (const GraphOutput& output : graph.outputs()) all.push_back(output.value);
    const Graph folded = fold(graph, all, *evaluator);
    for (std::size_t o = 0; o < executed.size(); ++o) {
      if (is_real(executed[o].type())) continue;
      INFO(o << " of " << to_string(graph));
      // A session computes 16-bit reals in float, including constants (precision.h).
      if (!graph_has_halves(graph)) CHECK(by_session[o] == executed[o]);
      CHECK(folded.value(folded.outputs()[o].value).constant == executed[o]);
      ++compared;
    }
  }
  CHECK(compared > 100);
}

TEST_CASE("so are many of them") {
  // Buckets of relative positions: too large for the interpreter.
  constexpr std::int64_t kCount = 400000;
  std::vector<double> distances(kCount);
  for (std::int64_t i = 0; i < kCount; ++i) distances[static_cast<std::size_t>(i)] = 8 + static_cast<double>(i % 4096);
  Graph graph;
  const ValueId eight = real_constant(graph, 8);
  const ValueId near =
      add(graph, "Div", {graph.add_constant(Tensor::from_reals(DataType::kFloat, {kCount}, distances)), eight})[0];
  const ValueId log = add(graph, "Div", {add(graph, "Log", {near})[0], real_constant(graph, 2.7725887)})[0];
  const ValueId bucket = cast(graph, add(graph, "Mul", {log, eight})[0], DataType::kInt64);
  graph.add_output("bucket", bucket);
  const ValueId wanted[] = {bucket};
  const Tensor executed = interpret(graph, {})[0];
  CHECK(fold(graph, wanted, *make_cpu_evaluator()).value(bucket).constant == executed);
  CHECK(cpu_backend().prepare(graph)->run({})[0] == executed);
  CHECK(executed.integers()[8] == 2);
}

TEST_CASE("a constant node with several outputs, of which some are read") {
  std::mt19937 random(1);
  for (int read = 1; read < 8; ++read) {
    Graph graph;
    const ValueId x = graph.add_input("x", {DataType::kFloat, {Index(3)}});
    const ValueId w = graph.add_constant(testing::random_tensor(random, DataType::kFloat, {6}));
    const Operator& op = registry().get("DynamicQuantizeLinear");
    const std::vector<ValueId> quantized = graph.add_node(op, op.defaults(), {w});
    graph.add_output("y", testing::node(graph, "Neg", {x})[0]);
    graph.add_output(
        "n",
        testing::node(graph, "Not",
                      {graph.add_constant(Tensor::from_integers(DataType::kBool, {2}, std::vector<std::int64_t>{0, 1}))})[0]);
    for (int o = 0; o < 3; ++o)
      if (read >> o & 1) graph.add_output("q" + std::to_string(o), quantized[static_cast<std::size_t>(o)]);
    const std::vector<Tensor> inputs{testing::random_tensor(random, DataType::kFloat, {3})};
    CHECK(cpu_backend().prepare(graph)->run(inputs) == interpret(graph, inputs));
  }
}

TEST_CASE("tables that every layer computes for itself, from reals that decide") {
  Graph graph;
  const ValueId x = graph.add_input("x", {DataType::kFloat, {Index(2), Index(3)}});
  ValueId sum = x;
  for (int layer = 0; layer < 4; ++layer) {
    const ValueId ratio = add(graph, "Div", {real_constant(graph, layer < 3 ? 7 : 8), real_constant(graph, 2)})[0];
    const ValueId number = cast(graph, ratio, DataType::kInt64);  // 3 in three layers
    const ValueId next = add(graph, "Add", {number, number})[0];
    graph.add_output("number" + std::to_string(layer), next);
    sum = add(graph, "Add", {sum, cast(graph, next, DataType::kFloat)})[0];
  }
  graph.add_output("sum", sum);
  const std::vector<Tensor> inputs{Tensor::from_reals(DataType::kFloat, {2, 3}, std::vector<double>{0, 1, 2, 3, 4, 5})};
  SessionOptions shared;
  shared.resources = cpu_backend().share_resources(1);
  for (const SessionOptions& options : {SessionOptions(), shared, shared})
    CHECK(cpu_backend().prepare(graph, options)->run(inputs) == interpret(graph, inputs));
}

}  // namespace rewright::cpu
