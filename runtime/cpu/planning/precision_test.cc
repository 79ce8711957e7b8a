// Half and bfloat16 computed in float.
#include "runtime/cpu/planning/precision.h"

#include "operators/testing/share.h"
#include "runtime/cpu/testing/graphs.h"

using namespace rewright;
using namespace rewright::cpu;
using rewright::testing::check_graph;
using rewright::testing::node;
using rewright::testing::random_tensor;

TEST_CASE("half and bfloat16 networks give what the interpreter gives, up to its rounding") {
  for (const DataType type : {DataType::kHalf, DataType::kBfloat16}) {
    std::mt19937 random(3);
    Graph graph;
    const auto constant = [&](Sizes sizes) { return graph.add_constant(random_tensor(random, type, sizes, -0.4, 0.4)); };
    const ValueId x = graph.add_input("x", {type, {Index(1), Index(5), Index(9), Index(9)}});
    ValueId y = node(graph, "Conv", {x, constant({12, 5, 3, 3}), constant({12})},
                     {{"strides", Indices{1, 1}},
                      {"dilations", Indices{1, 1}},
                      {"pads_begin", Indices{1, 1}},
                      {"pads_end", Indices{1, 1}},
                      {"group", Index(1)}})[0];
    y = node(graph, "Flatten", {node(graph, "GlobalAveragePool", {node(graph, "Relu", {y})[0]})[0]})[0];
    y = node(graph, "Softmax", {node(graph, "MatMul", {y, constant({12, 7})})[0]})[0];
    graph.add_output("y", y);
    const std::vector<Tensor> inputs{random_tensor(random, type, {1, 5, 9, 9})};
    check_graph(graph, inputs, type == DataType::kHalf ? 4e-3 : 3e-2);

    const Graph wide = cpu::in_float(graph);
    CHECK(wide.value(wide.inputs()[0]).type.type == type);
    CHECK(wide.outputs()[0].type.type == type);
    for (const auto& n : wide.nodes())
      if (n->op->name() != "Cast") CHECK(wide.value(n->outputs[0]).type.type == DataType::kFloat);
  }
}

TEST_CASE("half and bfloat16 tensors that are only moved keep their type") {
  for (unsigned seed = 0; seed < 40; ++seed) {
    INFO("seed " << seed);
    rewright::testing::GraphBuilder b(seed);
    const DataType type = seed % 2 == 0 ? DataType::kHalf : DataType::kBfloat16;
    const std::int64_t rows = b.pick(1, 70);
    std::vector<ValueId> parts;
    for (std::int64_t n = b.pick(1, 4); n > 0; --n) parts.push_back(b.input(type, {rows, b.pick(2, 40)}));
    if (b.pick(0, 2) == 0) parts.push_back(b.graph.add_constant(random_tensor(b.random, type, {rows, b.pick(1, 9)})));
    const ValueId all = node(b.graph, "Concat", parts, {{"axis", Index(1)}})[0];
    const std::int64_t columns = b.graph.value(all).type.shape[1].value(), first = b.pick(1, columns - 1);
    const std::vector<ValueId> pieces =
        node(b.graph, "Split", {all}, {{"axis", Index(1)}, {"sizes", Indices{first, columns - first}}});
    b.graph.add_output("all", all);
    for (const ValueId piece : pieces) b.graph.add_output("piece" + std::to_string(piece), piece);
    const Graph wide = cpu::in_float(b.graph);
    for (const auto& n : wide.nodes()) CHECK(n->op->name() != "Cast");
    check_graph(b.graph, b.inputs, 0);
  }
}

TEST_CASE("values that sizes tell stay known beside half and bfloat16") {
  for (const DataType type : {DataType::kHalf, DataType::kBfloat16, DataType::kFloat}) {
    std::mt19937 random(4);
    Graph graph;
    const ValueId x = graph.add_input("x", {type, {Index(3), Index(4)}});
    const ValueId n = graph.add_input("n", {DataType::kInt64, {Index(2)}});
    Value sizes = graph.value(n);
    sizes.contents = Indices{3, 2};
    graph.set_value(n, sizes);
    const ValueId squares = node(graph, "Mul", {n, n})[0];  // no plan computes it
    graph.add_output("squares", squares);
    graph.add_output("z", node(graph, "Neg", {x})[0]);
    const std::vector<std::int64_t> given{3, 2};
    check_graph(graph,
                std::vector<Tensor>{random_tensor(random, type, {3, 4}), Tensor::from_integers(DataType::kInt64, {2}, given)},
                1e-2);
  }
}

// With weights large enough for the processor's own products, if it has them.
TEST_CASE("products of bfloat16 with constant weights") {
  for (unsigned seed = 0; seed < testing::instances(12); ++seed) {
    CAPTURE(seed);
    testing::GraphBuilder b(seed);
    const std::int64_t rows = b.pick(1, 40), k = b.pick(64, 150), n = b.pick(64, 150);
    const Sizes sizes = b.pick(0, 1) == 0 ? Sizes{rows, k} : Sizes{2, rows, k};
    const auto constant = [&](const Sizes& s) {
      return b.graph.add_constant(random_tensor(b.random, DataType::kBfloat16, s, -0.3, 0.3));
    };
    const ValueId x = b.input(DataType::kBfloat16, sizes, -1, 1);
    ValueId y;
    if (seed % 3 == 0 && sizes.size() == 2)
      y = node(b.graph, "Gemm", {x, constant({n, k}), constant({n})}, {{"transB", true}})[0];
    else
      y = node(b.graph, "Add", {node(b.graph, "MatMul", {x, constant({k, n})})[0], constant({n})})[0];
    if (seed % 2) y = node(b.graph, "Relu", {y})[0];
    ValueId z = node(b.graph, "MatMul", {y, constant({n, k})})[0];
    z = node(b.graph, "Add", {z, x})[0];
    b.graph.add_output("y", z);
    // Rounding errors of terms are relative to the largest one, not to each result.
    const std::vector<double> e = interpret(b.graph, b.inputs)[0].reals();
    double largest = 0;
    for (const double v : e) largest = std::max(largest, std::fabs(v));
    for (const int threads : {1, 3}) {
      SessionOptions options;
      options.threads = threads;
      const std::vector<double> a = cpu_backend().prepare(b.graph, options)->run(b.inputs)[0].reals();
      double difference = 0;
      for (std::size_t i = 0; i < e.size(); ++i) difference = std::max(difference, std::fabs(a[i] - e[i]));
      CHECK(difference < 1e-2 * largest);
    }
    const std::vector<std::string> steps = b.steps();
    CHECK(std::count_if(steps.begin(), steps.end(),
                        [](const std::string& s) { return s.find("Mul") != s.npos || s.find("Gemm") != s.npos; }) == 2);
  }
}

// Subnormal numbers may be flushed to zero.
TEST_CASE("NaN and infinity in products of bfloat16") {
  testing::GraphBuilder b(1);
  const ValueId x = b.input(DataType::kBfloat16, {8, 64}, -1, 1);
  const Tensor w = random_tensor(b.random, DataType::kBfloat16, {64, 64}, 0.1, 0.3);
  b.graph.add_output("y", node(b.graph, "MatMul", {x, b.graph.add_constant(w)})[0]);
  std::vector<double> values = b.inputs[0].reals();
  values[3] = std::numeric_limits<double>::quiet_NaN();
  values[64 + 5] = std::numeric_limits<double>::infinity();
  values[2 * 64 + 7] = -std::numeric_limits<double>::infinity();
  b.inputs[0] = Tensor::from_reals(DataType::kBfloat16, {8, 64}, values);
  check_graph(b.graph, b.inputs, 3e-2);
}

TEST_CASE("where a node names half or bfloat16, values are rounded to it") {
  for (const DataType type : {DataType::kHalf, DataType::kBfloat16}) {
    std::mt19937 random(4);
    Graph graph;
    const ValueId x = graph.add_input("x", {DataType::kFloat, {Index(64)}});
    const ValueId narrow = node(graph, "Cast", {x}, {{"to", type}})[0];
    graph.add_output("y", node(graph, "Cast", {node(graph, "Neg", {narrow})[0]}, {{"to", DataType::kFloat}})[0]);
    graph.add_output("narrow", narrow);
    const std::vector<Tensor> inputs{random_tensor(random, DataType::kFloat, {64}, -9e4, 9e4)};  // beyond half's largest, too
    const std::vector<Tensor> expected = interpret(graph, inputs), actual = cpu_backend().prepare(graph, {})->run(inputs);
    for (std::size_t o = 0; o < expected.size(); ++o) CHECK(actual[o] == expected[o]);
  }
}

TEST_CASE("a graph without short reals stays as it is") {
  Graph graph;
  const ValueId x = graph.add_input("x", {DataType::kFloat, {Index(4)}});
  graph.add_output("y", node(graph, "Relu", {x})[0]);
  CHECK(cpu::in_float(graph).hash() == graph.hash());
  CHECK(cpu::in_float(graph).nodes().size() == 1);
}
