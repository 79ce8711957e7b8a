// Half and bfloat16 computed in float.
#include "runtime/cpu/precision.h"

#include "runtime/cpu/graph_testing.h"

using namespace rewright;
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
