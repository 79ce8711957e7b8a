#include "runtime/planned/operator_parts.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "operators/operator.h"

namespace rewright::runtime {

namespace {

plans::Machine two_devices() {
  plans::MachineDescription description;
  description.devices = description.per_node = 2;
  description.rates = plans::DeviceRates{1e11, 1e10, 0};
  description.node = plans::NetworkDescription{.latency = 1e-6, .bytes_per_second = 1e10};
  return plans::Machine(description);
}

}  // namespace

TEST_CASE("parts of operators are those of their cuts") {
  const Operator &product = registry().get("MatMul"), &negate = registry().get("Neg");
  for (const bool is_constant : {false, true}) {
    Graph graph;
    const ValueId x = graph.add_input("x", {DataType::kFloat, {64, 33}});
    const ValueId w = is_constant ? graph.add_constant(Tensor(DataType::kFloat, {33, 200}))
                                  : graph.add_input("w", {DataType::kFloat, {33, 200}});
    graph.add_output("y", graph.add_node(product, product.defaults(), {x, w}).at(0));
    // Next to nothing beside the product.
    graph.add_output("z", graph.add_node(negate, negate.defaults(), {graph.add_input("v", {DataType::kFloat, {4}})}).at(0));
    const std::vector<Graph> graphs{std::move(graph)};
    CHECK(operator_parts(two_devices(), graphs, 1).empty());
    std::set<std::string> found;
    for (const Graph& part : operator_parts(two_devices(), graphs, 2)) {
      REQUIRE(part.nodes().size() == 1);
      const Node& node = *part.nodes()[0];
      CHECK(node.op->name() == "MatMul");
      CHECK(part.is_constant(node.inputs[1]) == is_constant);
      CHECK(part.is_input(node.inputs[0]));
      found.insert(to_string(part.value(node.inputs[0]).type) + " " + to_string(part.value(node.inputs[1]).type));
    }
    // Rows; columns; and what is summed over, which two processes divide unevenly: the larger part.
    CHECK(found == std::set<std::string>{"float[32, 33] float[33, 200]", "float[64, 33] float[33, 100]",
                                         "float[64, 17] float[17, 200]"});
    CHECK(operator_parts(two_devices(), graphs, 100).size() == 1);  // of columns alone there are so many
  }
}

}  // namespace rewright::runtime
