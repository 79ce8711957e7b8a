#include "graph/graph.h"

#include <random>

#include <catch2/catch.hpp>

namespace rewright::graph {

namespace {

const Operator& op(std::string_view name) { return registry().get(name); }

ValueId add(Graph& graph, std::string_view name, std::vector<ValueId> inputs) {
  return graph.add_node(op(name), op(name).defaults(), std::move(inputs)).at(0);
}

TensorType floats(Indices shape) { return {DataType::kFloat, std::move(shape)}; }

}  // namespace

TEST_CASE("new nodes get their types from the definitions") {
  Graph graph;
  const ValueId x = graph.add_input("x", floats({Index::symbol("N"), 3}));
  const ValueId y = graph.add_constant(Tensor::from_reals(DataType::kFloat, {3}, std::vector<double>{1, 2, 3}));
  const ValueId sum = add(graph, "Add", {x, y});
  CHECK(to_string(graph.value(sum).type) == "float[N, 3]");
  const ValueId wrong = graph.add_constant(Tensor::from_reals(DataType::kFloat, {2}, std::vector<double>{1, 2}));
  CHECK_THROWS_AS(add(graph, "Add", {x, wrong}), Error);
  CHECK_THROWS_WITH(add(graph, "Relu", {}), Catch::Contains("has 0 inputs, expected 1"));
}

TEST_CASE("copies share, edits leave the original as it was") {
  Graph graph;
  const ValueId x = graph.add_input("x", floats({4}));
  const ValueId a = add(graph, "Exp", {x});
  const ValueId b = add(graph, "Relu", {a});
  graph.add_output("y", b);
  Graph copy = graph;
  copy.replace_uses(a, x);
  copy.tidy();
  CHECK(graph.nodes().size() == 2);
  CHECK(copy.nodes().size() == 1);
  CHECK(copy.nodes()[0]->inputs[0] == x);
  CHECK(graph.nodes()[1]->inputs[0] == a);
  CHECK(copy.outputs()[0].name == "y");
}

TEST_CASE("tidy sorts, drops what is dead and merges what is equal") {
  Graph graph;
  const ValueId x = graph.add_input("x", floats({4}));
  const ValueId y = graph.add_input("y", floats({4}));
  const ValueId dead = add(graph, "Exp", {x});
  const ValueId one = add(graph, "Add", {x, y});
  const ValueId same = add(graph, "Add", {y, x});
  const ValueId product = add(graph, "Mul", {one, same});
  const ValueId difference = add(graph, "Sub", {x, y});
  const ValueId other = add(graph, "Sub", {y, x});
  graph.add_output("p", product);
  graph.add_output("d", difference);
  graph.add_output("e", other);
  graph.tidy();
  CHECK(graph.nodes().size() == 4);
  CHECK(graph.producers()[dead] == -1);
  CHECK(graph.users()[one].size() == 1);

  // A replacement that was added at the end moves before its users.
  const ValueId late = add(graph, "Relu", {x});
  graph.replace_uses(one, late);
  graph.tidy();
  CHECK(graph.nodes()[0]->outputs[0] == difference);
  CHECK(graph.nodes()[2]->op->name() == "Relu");
  CHECK(graph.nodes()[3]->op->name() == "Mul");
}

TEST_CASE("equal constants are merged by content") {
  Graph graph;
  const ValueId x = graph.add_input("x", floats({2}));
  const auto two = [&] { return graph.add_constant(Tensor::from_reals(DataType::kFloat, {2}, std::vector<double>{1, 2})); };
  graph.add_output("a", add(graph, "Add", {x, two()}));
  graph.add_output("b", add(graph, "Add", {x, two()}));
  graph.tidy();
  CHECK(graph.nodes().size() == 1);
  CHECK(graph.outputs()[0].value == graph.outputs()[1].value);
}

TEST_CASE("a cycle is refused") {
  Graph graph;
  const ValueId x = graph.add_input("x", floats({2}));
  const ValueId a = add(graph, "Exp", {x});
  const ValueId b = add(graph, "Relu", {a});
  graph.add_output("y", b);
  Node changed = *graph.nodes()[0];
  changed.inputs = {b};
  graph.drop_nodes_from(0);
  graph.add_raw(std::move(changed));
  Node second;
  second.op = &op("Relu");
  second.inputs = {a};
  second.outputs = {b};
  graph.add_raw(std::move(second));
  CHECK_FALSE(graph.try_tidy());
  CHECK_THROWS_WITH(graph.tidy(), Catch::Contains("cycle"));
}

TEST_CASE("a constant takes the place of what computed it") {
  Graph graph;
  const ValueId c = graph.add_constant(Tensor::from_reals(DataType::kFloat, {2}, std::vector<double>{1, 4}));
  const ValueId root = add(graph, "Sqrt", {c});
  graph.add_output("y", add(graph, "Neg", {root}));
  CHECK(graph.constant_values()[root]);
  graph.set_constant(root, Tensor::from_reals(DataType::kFloat, {2}, std::vector<double>{1, 2}));
  graph.tidy();
  CHECK(graph.nodes().size() == 1);
  CHECK(interpret(graph, {})[0].reals() == std::vector<double>{-1, -2});
}

TEST_CASE("unused values are dropped, and a copy keeps them") {
  Graph graph;
  const ValueId x = graph.add_input("x", floats({4}));
  const ValueId unread = graph.add_input("unread", floats({2}));
  const ValueId dead = add(graph, "Exp", {x});
  const ValueId y = add(graph, "Relu", {x});
  graph.drop_nodes_from(0);
  Graph used = graph;
  const ValueId z = add(used, "Neg", {x});
  used.add_output("z", z);
  const std::uint64_t hash = used.hash();
  const Graph before = used;
  used.drop_unused_values();
  CHECK(used.value_count() == 3);
  CHECK(used.inputs().size() == 2);
  CHECK(used.value(used.inputs()[1]).name == "unread");
  CHECK(used.hash() == hash);
  CHECK(before.value_count() == 5);
  CHECK(before.value(z).type == used.value(used.outputs()[0].value).type);
  CHECK((unread < dead && dead < y));
  const Tensor given = Tensor::from_reals(DataType::kFloat, {4}, std::vector<double>{1, -2, 3, 0});
  const std::vector<Tensor> inputs{given, Tensor(DataType::kFloat, {2})};
  CHECK(interpret(used, inputs)[0].reals() == interpret(before, inputs)[0].reals());
}

TEST_CASE("the hash is blind to order and inner names, and sees all else") {
  auto build = [](bool swapped, double weight, std::string_view last) {
    Graph graph;
    const ValueId x = graph.add_input("x", floats({2}));
    const ValueId w =
        graph.add_constant(Tensor::from_reals(DataType::kFloat, {2}, std::vector<double>{weight, 2}), swapped ? "weight" : "w");
    ValueId a, b;
    if (swapped) {
      b = add(graph, "Exp", {x});
      a = add(graph, "Add", {w, x});
    } else {
      a = add(graph, "Add", {x, w});
      b = add(graph, "Exp", {x});
    }
    graph.add_output("y", add(graph, last, {a, b}));
    return graph.hash();
  };
  CHECK(build(false, 1, "Mul") == build(true, 1, "Mul"));
  CHECK(build(false, 1, "Sub") == build(true, 1, "Sub"));
  CHECK(build(false, 1, "Mul") != build(false, 3, "Mul"));
  CHECK(build(false, 1, "Mul") != build(false, 1, "Div"));
}

TEST_CASE("deep graphs do not exhaust the stack") {
  Graph graph;
  ValueId x = graph.add_input("x", floats({1}));
  for (int i = 0; i < 100'000; ++i) x = add(graph, i % 2 == 0 ? "Relu" : "Neg", {x});
  graph.add_output("y", x);
  graph.tidy();
  CHECK(graph.nodes().size() == 100'000);
  CHECK(graph.hash() != 0);
}

}  // namespace rewright::graph
