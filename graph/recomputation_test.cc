#include "graph/recomputation.h"

#include <catch2/catch.hpp>

#include "base/error.h"

namespace rewright::graph {

namespace {

ValueId add(Graph& graph, const char* op, std::vector<ValueId> inputs) {
  return graph.add_node(registry().get(op), registry().get(op).defaults(), std::move(inputs)).at(0);
}

}  // namespace

TEST_CASE("recomputation: later readers use the copies, and first results are dropped where nothing else reads them") {
  Graph graph;
  const ValueId x = graph.add_input("x", {DataType::kFloat, {4}});
  const ValueId a = add(graph, "Tanh", {x}), b = add(graph, "Exp", {a});
  const ValueId c = add(graph, "Sin", {b}), d = add(graph, "Mul", {b, c});
  graph.add_output("y", add(graph, "Add", {d, a}));
  const Recomputation both{3, {0, 1}};
  const RecomputedGraph result = with_recomputations(graph, std::span(&both, 1));
  REQUIRE(result.graph.nodes().size() == 7);
  CHECK(result.of_node == std::vector<std::int32_t>{0, 1, 2, 0, 1, 3, 4});
  CHECK(result.again == std::vector<bool>{false, false, false, true, true, false, false});
  CHECK(result.graph.nodes()[4]->inputs[0] == result.graph.nodes()[3]->outputs[0]);
  CHECK(result.graph.nodes()[5]->inputs[0] == result.graph.nodes()[4]->outputs[0]);
  CHECK(result.graph.nodes()[6]->inputs[1] == result.graph.nodes()[3]->outputs[0]);
  const std::vector<double> numbers{-1, 0, 0.5, 2};
  const std::vector<Tensor> inputs{Tensor::from_reals(DataType::kFloat, {4}, numbers)};
  CHECK(interpret(result.graph, inputs) == interpret(graph, inputs));

  const Recomputation at_once{2, {0, 1}};  // before any reader of the second: the first results are of no use
  const RecomputedGraph moved = with_recomputations(graph, std::span(&at_once, 1));
  CHECK(moved.graph.nodes().size() == 5);
  CHECK(interpret(moved.graph, inputs) == interpret(graph, inputs));
}

TEST_CASE("recomputation: what is not there or would not be the same is refused") {
  Graph graph;
  const ValueId x = graph.add_input("x", {DataType::kFloat, {4}});
  const ValueId a = add(graph, "Tanh", {x});
  graph.add_output("y", add(graph, "Exp", {add(graph, "Sin", {a})}));
  const auto refused = [&](std::vector<Recomputation> list, const char* why) {
    INFO(why);
    CHECK_THROWS_WITH(with_recomputations(graph, list), Catch::Contains(why));
  };
  refused({{7, {0}}}, "not there");
  refused({{-1, {0}}}, "not there");
  refused({{2, {0}}, {1, {0}}}, "not in order");
  refused({{2, {9}}}, "not there");
  refused({{1, {2}}}, "operands are not there");
}

}  // namespace rewright::graph
