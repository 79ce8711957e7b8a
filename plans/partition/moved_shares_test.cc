#include "plans/partition/moved_shares.h"

#include <catch2/catch.hpp>

namespace rewright::plans {

TEST_CASE("moved shares: what one node reads element by element is neither written nor read") {
  const auto shares = [](std::vector<const char*> ops, bool is_output) {
    Graph graph;
    ValueId x = graph.add_input("x", {DataType::kFloat, {8, 8}});
    const ValueId w = graph.add_input("w", {DataType::kFloat, {8, 8}});
    for (const char* name : ops) {
      const Operator& op = registry().get(name);
      std::vector<ValueId> inputs{x};
      if (op.min_inputs() == 2) inputs.push_back(w);
      x = graph.add_node(op, op.defaults(), std::move(inputs)).at(0);
      if (is_output) graph.add_output("", x);
    }
    if (!is_output) graph.add_output("y", x);
    return moved_shares(graph);
  };
  const auto third = Approx(1.0 / 3);
  // A product reads two operands, and others' rows more than once.
  CHECK(shares({"Neg", "MatMul"}, false) == std::vector<double>{1, 1});
  // The product's time has the writing of the last one's result.
  const auto after = shares({"MatMul", "Neg", "Exp"}, false);
  CHECK(after[0] == 1);
  CHECK(after[1] == Approx(0).margin(1e-12));
  CHECK(after[2] == Approx(0).margin(1e-12));
  CHECK(shares({"MatMul", "Add", "Mul"}, false)[1] == third);
  CHECK(shares({"MatMul", "Neg", "Exp"}, true) == std::vector<double>{1, 1, 1});
}

TEST_CASE("moved shares: a result that one node reads twice is saved once") {
  Graph graph;
  const Operator &product = registry().get("MatMul"), &times = registry().get("Mul");
  const ValueId a = graph.add_input("a", {DataType::kFloat, {8, 8}}), b = graph.add_input("b", {DataType::kFloat, {8, 8}});
  const ValueId y = graph.add_node(product, product.defaults(), {a, b}).at(0);
  graph.add_output("z", graph.add_node(times, times.defaults(), {y, y}).at(0));
  const auto shares = moved_shares(graph);
  CHECK(shares[0] == 1);
  CHECK(shares[1] == Approx(0).margin(1e-12));
}

TEST_CASE("moved shares: of two operands the second one is not written either") {
  Graph graph;
  const Operator &negate = registry().get("Neg"), &add = registry().get("Add");
  std::vector<ValueId> operands;
  for (const char* name : {"a", "b"})
    operands.push_back(graph.add_node(negate, negate.defaults(), {graph.add_input(name, {DataType::kFloat, {8, 8}})}).at(0));
  graph.add_output("y", graph.add_node(add, add.defaults(), std::move(operands)).at(0));
  // Of 7 tensors read and written, three are left: both inputs and the result.
  const auto shares = moved_shares(graph);
  CHECK(shares[0] == 1);
  CHECK(shares[1] == Approx(0.5));
  CHECK(shares[2] == Approx(0).margin(1e-12));
}

TEST_CASE("moved shares: values that several nodes read, or that move, are in memory") {
  Graph graph;
  const auto add = [&](const char* op, std::vector<ValueId> inputs,
                       std::vector<std::pair<std::string, AttributeValue>> attributes = {}) {
    const Operator& o = registry().get(op);
    Attributes all = o.defaults();
    for (auto& [name, value] : attributes) all[*o.field(name)] = std::move(value);
    return graph.add_node(o, std::move(all), std::move(inputs)).at(0);
  };
  const ValueId x = graph.add_input("x", {DataType::kFloat, {4, 8}});
  const ValueId twice = add("Neg", {x}), view = add("Reshape", {x}, {{"shape", Indices{8, 4}}});
  graph.add_output("a", add("Exp", {twice}));
  graph.add_output("b", add("Transpose", {add("Tanh", {twice})}, {{"perm", Indices{1, 0}}}));
  graph.add_output("c", add("Exp", {view}));
  CHECK(moved_shares(graph) == std::vector<double>(graph.nodes().size(), 1));
}

}  // namespace rewright::plans
