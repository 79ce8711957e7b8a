#include "plans/partition/moved_shares.h"

#include <catch2/catch.hpp>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "optimizer/costs/cost_model.h"

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

TEST_CASE("moved shares: a kernel's write counts once, in any order of operands and nodes") {
  for (const bool is_swapped : {false, true})
    for (const bool product_first : {false, true}) {
      CAPTURE(is_swapped, product_first);
      Graph graph;
      const TensorType type{DataType::kFloat, {1024, 1024}};
      const ValueId x = graph.add_input("x", type), w = graph.add_input("w", type), p = graph.add_input("p", type);
      const auto add = [&](const char* name, std::vector<ValueId> operands) {
        const Operator& op = registry().get(name);
        return graph.add_node(op, op.defaults(), std::move(operands)).at(0);
      };
      ValueId b = kNoValue, q = kNoValue;
      if (!product_first) q = add("Neg", {p});
      b = add("Exp", {add("MatMul", {x, w})});
      if (product_first) q = add("Neg", {p});
      graph.add_output("y", is_swapped ? add("Add", {q, b}) : add("Add", {b, q}));
      // The product keeps its three tensors, its last one for the sum; beside it the other operand is read.
      const std::size_t product = product_first ? 0 : 1, negation = product_first ? 2 : 0;
      const auto shares = moved_shares(graph);
      CHECK(shares[product] == 1);
      CHECK(shares[product + 1] == Approx(0).margin(1e-12));
      CHECK(shares[negation] == Approx(0.5));
      CHECK(shares[3] == Approx(0).margin(1e-12));
    }
}

TEST_CASE("moved shares: results that are smaller than what they are computed of, and larger ones") {
  for (const bool is_smaller : {false, true}) {
    CAPTURE(is_smaller);
    Graph graph;
    const TensorType type{DataType::kFloat, {8, 8}};
    const Operator &product = registry().get("MatMul"), &last = registry().get(is_smaller ? "Greater" : "Cast");
    Attributes attributes = last.defaults();
    const ValueId x = graph.add_input("x", type), w = graph.add_input("w", type);
    std::vector<ValueId> operands{graph.add_node(product, product.defaults(), {x, w}).at(0)};
    if (is_smaller)
      operands.push_back(graph.add_input("d", type));
    else
      attributes.at(last.field("to").value()) = DataType::kDouble;
    graph.add_output("y", graph.add_node(last, attributes, operands).at(0));
    const auto bytes = [&](std::size_t n) {
      const Node& node = *graph.nodes()[n];
      return operator_traits(*node.op, node.attributes, graph.operand_types(node)).bytes;
    };
    const auto shares = moved_shares(graph);
    // Of 64 elements: 4 bytes each of the operands and of the product, 1 of the comparison, 8 of doubles.
    CHECK(shares[0] * bytes(0) == Approx(bytes(0) - (is_smaller ? 64 * 3 : 0)));
    CHECK(shares[1] * bytes(1) == Approx(64 * 4));
  }
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
