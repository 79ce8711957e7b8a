#include <catch2/catch.hpp>

#include "optimizer/costs/cost_model.h"
#include "plans/partition/partition.h"

namespace rewright::plans {

namespace {

// 15 TFLOP/s and 900 GB/s.
double roofline(const Operator& op, const Attributes& attributes, OperandTypes types) {
  const OperatorTraits traits = operator_traits(op, attributes, types);
  return std::max(traits.operations / 15e12, traits.free ? 0 : traits.bytes / 900e9);
}

}  // namespace

TEST_CASE("partition: two products of a feed-forward layer are cut as Megatron does") {
  Graph graph;
  const ValueId x = graph.add_input("x", {DataType::kFloat, {512, 1024}});
  const ValueId w1 = graph.add_input("w1", {DataType::kFloat, {1024, 4096}}),
                w2 = graph.add_input("w2", {DataType::kFloat, {4096, 1024}});
  const auto add = [&](const char* op, std::vector<ValueId> inputs) {
    return graph.add_node(registry().get(op), registry().get(op).defaults(), std::move(inputs)).at(0);
  };
  graph.add_output("y", add("MatMul", {add("Relu", {add("MatMul", {x, w1})}), w2}));
  PartitionOptions options;
  options.processes = 8, options.latency = 5e-6, options.seconds_per_byte = 1 / 150e9;
  options.allowed = [&](ValueId v, const Holding& h) { return v != x || h.kind == Holding::Kind::kWhole; };
  options.memory = 10e6;  // less than the weights take
  ChoiceFinder choices(8, roofline);
  const Partition p = partition(graph, choices, options);
  REQUIRE(p.found);
  CHECK(p.proved_best);
  CHECK(p.given[w1] == cut_along(1, 1, 4096, 8, 4096));
  CHECK(p.given[w2] == cut_along(0, 1, 4096, 8, 4096));
  const auto exchanges = exchanges_of(graph, p, options);
  REQUIRE(exchanges.size() == 1);
  CHECK(exchanges[0].exchange == Exchange::kAllReduce);
}

}  // namespace rewright::plans
