#include "runtime/cpu/planning/known_numbers.h"

#include <algorithm>
#include <string>

#include "graph/testing.h"
#include "operators/testing/share.h"
#include "runtime/cpu/testing/graphs.h"

using namespace rewright;
using namespace rewright::cpu;
using rewright::testing::node;
using rewright::testing::random_tensor;

TEST_CASE("choices by known conditions, sums with zeros and factors of products are what the definitions say") {
  for (unsigned seed = 0; seed < testing::instances(60); ++seed) {
    CAPTURE(seed);
    rewright::testing::GraphBuilder b(seed);
    const std::int64_t rows = b.pick(1, 9), columns = b.pick(1, 9), depth = b.pick(1, 9);
    const auto number = [&](DataType type, const Sizes& sizes, double value) {
      const std::vector<double> all(static_cast<std::size_t>(element_count(sizes)), value);
      return b.graph.add_constant(Tensor::from_reals(type, sizes, all));
    };
    const auto scaled = [&](ValueId x) {
      const double factor = static_cast<double>(b.pick(-3, 3)) / 4;
      return b.pick(0, 3) == 0 ? x : node(b.graph, "Mul", {x, number(DataType::kFloat, {}, factor)})[0];
    };
    const ValueId a = b.input({rows, depth}), w = b.input({depth, columns});
    ValueId y = node(b.graph, "MatMul", {scaled(a), scaled(w)})[0];
    if (b.pick(0, 1) == 0)
      y = node(b.graph, "Add", {y, number(DataType::kFloat, {rows, columns}, static_cast<double>(b.pick(-1, 1)))})[0];
    if (b.pick(0, 2) == 0) y = node(b.graph, "Cast", {y}, {{"to", DataType::kFloat}})[0];
    // A condition that is computed: the same everywhere, or not known.
    const ValueId largest =
        node(b.graph, "ReduceMax", {number(DataType::kFloat, {rows, columns}, static_cast<double>(b.pick(0, 1)))},
             {{"axes", Indices{1}}, {"keepdims", true}})[0];
    const ValueId one = number(DataType::kFloat, {}, 1);
    ValueId condition = node(b.graph, "Equal", {largest, one})[0];
    if (b.pick(0, 2) == 0) condition = b.input(DataType::kBool, {rows, 1});
    const bool broadcasts = b.pick(0, 1) == 0;  // then the result has another shape than what is chosen
    y = node(b.graph, "Where", {condition, broadcasts ? number(DataType::kFloat, {}, 0) : b.input({rows, columns}), y})[0];
    if (b.pick(0, 1) == 0) y = node(b.graph, "Relu", {y})[0];
    b.check(y, 1e-5);
  }
}

TEST_CASE("Attention of ONNX, of all kinds") {
  for (unsigned seed = 0; seed < testing::instances(40); ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto pick = [&](std::int64_t low, std::int64_t high) {
      return std::uniform_int_distribution<std::int64_t>(low, high)(random);
    };
    const std::int64_t shared = pick(1, 3), heads = shared * pick(1, 2), queries = pick(1, 40), keys = pick(1, 40);
    const auto list = [](std::int64_t h, std::int64_t n) {
      return "[2, " + std::to_string(h) + ", " + std::to_string(n) + ", 8]";
    };
    std::string attributes = pick(0, 1) == 0 ? "is_causal = " + std::to_string(pick(0, 1)) : "scale = 0.3";
    if (pick(0, 2) == 0) attributes += ", softcap = 2.0";
    const bool masked = pick(0, 2) == 0;
    const std::string mask = "float[" + std::to_string(queries) + ", " + std::to_string(keys) + "] m";
    const Graph graph = rewright::testing::import_text(
        "agraph (float" + list(heads, queries) + " q, float" + list(shared, keys) + " k, float" + list(shared, keys) + " v" +
            (masked ? ", " + mask : "") + ") => (float" + list(heads, queries) + " y) { y = Attention <" + attributes +
            "> (q, k, v" + (masked ? ", m" : "") + ") }",
        23);
    std::vector<Tensor> inputs;
    for (const ValueId v : graph.inputs())
      inputs.push_back(random_tensor(random, DataType::kFloat, values(graph.value(v).type.shape)));
    rewright::testing::check_graph(graph, inputs, 5e-5);
  }
}

TEST_CASE("Attention of ONNX without masks is one step") {
  const Graph graph = rewright::testing::import_text(
      "agraph (float[1, 4, 64, 32] q, float[1, 4, 64, 32] k, float[1, 4, 64, 32] v) => (float[1, 4, 64, 32] y) "
      "{ y = Attention (q, k, v) }",
      23);
  SessionOptions options;
  options.profile = true;
  const auto session = cpu_backend().prepare(graph, options);
  std::mt19937 random(1);
  std::vector<Tensor> inputs;
  for (int n = 0; n < 3; ++n) inputs.push_back(random_tensor(random, DataType::kFloat, {1, 4, 64, 32}));
  session->run(inputs);
  const auto of_heads = [](const StepProfile& step) { return step.flops > 1e5; };
  const auto& steps = session->profile();
  CHECK(std::count_if(steps.begin(), steps.end(), of_heads) == 1);
}
