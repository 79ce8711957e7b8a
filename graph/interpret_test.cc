#include <catch2/catch.hpp>

#include "graph/graph.h"
#include "graph/testing.h"

namespace rewright::graph {

namespace {

using testing::floats;

Graph sum_of_two() {
  Graph graph;
  const ValueId x = graph.add_input("x", {DataType::kFloat, {Index::symbol("N"), 2}});
  const ValueId y = graph.add_input("y", {DataType::kFloat, {Index::symbol("N"), 1}});
  const Operator& add = registry().get("Add");
  graph.add_output("z", graph.add_node(add, add.defaults(), {x, y}).at(0));
  return graph;
}

}  // namespace

TEST_CASE("a graph is evaluated for the sizes of its inputs") {
  const Graph graph = sum_of_two();
  const Tensor inputs[] = {floats({2, 2}, {1, 2, 3, 4}), floats({2, 1}, {10, 20})};
  const auto outputs = interpret(graph, inputs);
  CHECK(outputs.at(0).sizes() == Sizes{2, 2});
  CHECK(outputs[0].reals() == std::vector<double>{11, 12, 23, 24});
}

TEST_CASE("inputs that do not fit are named") {
  const Graph graph = sum_of_two();
  const Tensor sizes[] = {floats({2, 2}, {1, 2, 3, 4}), floats({1, 1}, {10})};
  CHECK_THROWS_WITH(interpret(graph, sizes), Catch::Contains("input \"y\"") && Catch::Contains("axis 0 must be 2"));
  const Tensor rank[] = {floats({2}, {1, 2}), floats({1, 1}, {10})};
  CHECK_THROWS_WITH(interpret(graph, rank), Catch::Contains("input \"x\""));
  const Tensor type[] = {Tensor::from_integers(DataType::kInt64, {1, 2}, std::vector<std::int64_t>{1, 2}), floats({1, 1}, {1})};
  CHECK_THROWS_WITH(interpret(graph, type), Catch::Contains("the model asks for float[N, 2]"));
  CHECK_THROWS_WITH(interpret(graph, {}), Catch::Contains("2 inputs, 0 tensors"));
}

TEST_CASE("sizes can be replaced by numbers") {
  const Graph graph = with_sizes(sum_of_two(), [](const Atom& atom) -> std::optional<Index> {
    return atom.name == "N" ? std::optional<Index>(7) : std::nullopt;
  });
  CHECK(to_string(graph.value(graph.inputs()[0]).type) == "float[7, 2]");
  CHECK(to_string(graph.outputs()[0].type) == "float[7, 2]");
}

}  // namespace rewright::graph
