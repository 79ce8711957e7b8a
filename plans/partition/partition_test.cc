#include <catch2/catch.hpp>
#include <numeric>

#include "optimizer/costs/cost_model.h"
#include "plans/groups/group_graph.h"
#include "plans/machines/machine_file.h"
#include "plans/partition/partition.h"
#include "plans/simulation/price.h"

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

TEST_CASE("partition: the gradient of an embedding is added up, also between groups") {
  for (const bool from_zeros : {true, false}) {
    Graph graph;
    const TensorType table{DataType::kFloat, {32, 16}};
    const Operator &fill = registry().get("Fill"), &scatter = registry().get("ScatterND");
    Attributes zeros = fill.defaults(), adds = scatter.defaults();
    zeros.at(*fill.field("value")) = Real(0), zeros.at(*fill.field("shape")) = table.shape;
    zeros.at(*fill.field("type")) = table.type;
    adds.at(*scatter.field("reduction")) = std::string("add");
    const ValueId before = from_zeros ? graph.add_node(fill, zeros, {}).at(0) : graph.add_input("x", table);
    const ValueId words = graph.add_input("words", {DataType::kInt64, {8, 4, 1}}),
                  updates = graph.add_input("updates", {DataType::kFloat, {8, 4, 16}});
    graph.add_output("y", graph.add_node(scatter, adds, {before, words, updates}).at(0));
    ChoiceFinder choices(4, roofline);
    std::size_t sums = 0;
    for (const NodeChoice& c : choices.of(graph, *graph.nodes().back())) {
      if (c.gives[0].kind != Holding::Kind::kPartial) continue;
      ++sums;
      CHECK(c.needs[0].once == !from_zeros);
      CHECK(why_not_alike(c, 4).empty() == from_zeros);
    }
    CHECK(sums == 2);  // by samples, and by words
  }
}

TEST_CASE("partition: the longer one of computing and exchanging, and its bound") {
  Graph graph;
  const ValueId x = graph.add_input("x", {DataType::kFloat, {512, 1024}}),
                w = graph.add_input("w", {DataType::kFloat, {1024, 4096}});
  graph.add_output("y", graph.add_node(registry().get("MatMul"), registry().get("MatMul").defaults(), {x, w}).at(0));
  PartitionOptions options;
  options.processes = 4, options.seconds_per_byte = 1e-10;
  ChoiceFinder choices(4, roofline);
  const Partition serial = partition(graph, choices, options);
  options.overlapped = true;
  const Partition overlapped = partition(graph, choices, options);
  REQUIRE((serial.found && overlapped.found));
  const double longest = std::max(overlapped.seconds - overlapped.exchange_seconds, overlapped.exchange_seconds);
  CHECK(overlapped.bound <= longest * (1 + 1e-6));
  CHECK(overlapped.bound >= 0.5 * serial.bound * (1 - 1e-6));
  CHECK(longest <= serial.seconds * (1 + 1e-6));
}

TEST_CASE("partition: exchanges take the times that are simulated on equal links") {
  const double alpha = 5e-6, beta = 1e-9;
  for (const std::size_t count : {2, 3, 4, 8, 16, 64}) {
    const Machine machine(make_cluster(1, count, {1e12, 1e12}, 1e9, {alpha, 1 / beta, "switch"}, {}));
    Devices all(count);
    std::iota(all.begin(), all.end(), 0);
    PartitionOptions options;
    options.processes = static_cast<std::int64_t>(count), options.latency = alpha, options.seconds_per_byte = beta;
    options.pairs = fastest_pairs(machine, {all});
    for (const double bytes : {64.0, 4096.0, 1e6, 1e9}) {
      INFO(count << " processes, " << bytes << " bytes");
      const AllReduce way{strategy_of(distribution::way_of(count, bytes, options.pairs))};
      const auto require = [&](Exchange exchange, CollectiveKind kind, double of) {
        const double simulated = price(machine, Collective{kind, {all}, of, way}).seconds;
        CHECK(exchange_seconds(exchange, bytes, 0, options) == Approx(simulated).epsilon(1e-6));
      };
      require(Exchange::kAllReduce, CollectiveKind::kAllReduce, bytes);
      require(Exchange::kAllGather, CollectiveKind::kAllGather, bytes);
      require(Exchange::kReduceScatter, CollectiveKind::kReduceScatter, bytes);
      require(Exchange::kAllToAll, CollectiveKind::kAllToAll, bytes / static_cast<double>(count));
    }
  }
}

TEST_CASE("partition: without time and without a partition it says that there was no time, not that nothing fits") {
  Graph graph;
  ValueId x = graph.add_input("x", {DataType::kFloat, {64, 64}});
  for (int layer = 0; layer < 12; ++layer) {
    const ValueId w = graph.add_input("w" + std::to_string(layer), {DataType::kFloat, {64, 64}});
    x = graph.add_node(registry().get("MatMul"), registry().get("MatMul").defaults(), {x, w}).at(0);
    x = graph.add_node(registry().get("Relu"), registry().get("Relu").defaults(), {x}).at(0);
  }
  graph.add_output("y", x);
  PartitionOptions options;
  options.processes = 4, options.seconds_per_byte = 1e-10, options.seconds = 0;
  ChoiceFinder choices(4, roofline);
  const Partition hurried = partition(graph, choices, options);
  CHECK((hurried.found || hurried.timed_out));
  options.seconds = 60, options.memory = 1;
  const Partition tight = partition(graph, choices, options);
  CHECK_FALSE(tight.found);
  CHECK_FALSE(tight.timed_out);
  // A value that may not be held in any way, as images of fewer rows than processes that are to be cut along them.
  for (const ValueId given : {graph.inputs()[0], graph.inputs()[1]}) {
    PartitionOptions forbidding = options;
    forbidding.memory = 1e12;
    forbidding.allowed = [given](ValueId v, const Holding&) { return v != given; };
    const Partition none = partition(graph, choices, forbidding);
    CHECK_FALSE(none.found);
    CHECK_FALSE(none.timed_out);
  }
}

}  // namespace rewright::plans
