#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <numeric>
#include <random>

#include "optimizer/costs/cost_model.h"
#include "plans/groups/group_graph.h"
#include "plans/machines/machine_file.h"
#include "plans/partition/chains.h"
#include "plans/partition/partition.h"
#include "plans/simulation/price.h"

namespace rewright::plans {

namespace {

// 15 TFLOP/s and 900 GB/s.
double roofline(const Operator& op, const Attributes& attributes, OperandTypes types, double) {
  const OperatorTraits traits = operator_traits(op, attributes, types);
  return std::max(traits.operations / 15e12, traits.free ? 0 : traits.bytes / 900e9);
}

// Products one after the other, or each of an input of its own.
Graph products(std::size_t count, bool in_a_row) {
  Graph graph;
  ValueId x = kNoValue;
  for (std::size_t k = 0; k < count; ++k) {
    const std::string number = std::to_string(k);
    if (k == 0 || !in_a_row) x = graph.add_input("x" + number, {DataType::kFloat, {512, 1024}});
    const ValueId w = graph.add_input("w" + number, {DataType::kFloat, {1024, 1024}});
    x = graph.add_node(registry().get("MatMul"), registry().get("MatMul").defaults(), {x, w}).at(0);
    if (k + 1 == count || !in_a_row) graph.add_output("y" + number, x);
  }
  return graph;
}

// The seconds of the longest chain, by trying all first and last nodes.
double longest_by_trying(const Graph& graph, const std::function<double(std::size_t)>& node_seconds,
                         const std::function<double(const ChainLink&)>& link_seconds) {
  const auto producers = graph.producers();
  const std::size_t count = graph.nodes().size();
  std::vector<std::vector<bool>> depends(count, std::vector<bool>(count));  // on itself, too
  std::vector<ChainLink> links;
  for (std::size_t n = 0; n < count; ++n) {
    depends[n][n] = true;
    for (std::size_t k = 0; k < graph.nodes()[n]->inputs.size(); ++k) {
      links.push_back({graph.nodes()[n]->inputs[k], static_cast<std::int32_t>(n), k});
      if (const std::int32_t producer = producers[links.back().value]; producer >= 0)
        for (std::size_t m = 0; m < count; ++m)
          if (depends[static_cast<std::size_t>(producer)][m]) depends[n][m] = true;
    }
  }
  for (std::size_t o = 0; o < graph.outputs().size(); ++o) links.push_back({graph.outputs()[o].value, ChainLink::kOutput, o});
  // From the begin of node `first` to the end of `last`, one after the other.
  const std::function<double(std::size_t, std::size_t)> between = [&](std::size_t first, std::size_t last) {
    double most = first == last ? node_seconds(last) : -1e9;
    for (const ChainLink& link : links)
      if (const std::int32_t producer = producers[link.value]; link.reader == static_cast<std::int32_t>(last) && producer >= 0)
        most = std::max(most, between(first, static_cast<std::size_t>(producer)) + link_seconds(link) + node_seconds(last));
    return most;
  };
  const auto sent = [&](const auto& counts) {  // each value once
    std::map<ValueId, double> of_value;
    for (const ChainLink& link : links)
      if (counts(link)) of_value[link.value] = std::max(of_value[link.value], link_seconds(link));
    double sum = 0;
    for (const auto& [value, seconds] : of_value) sum += seconds;
    return sum;
  };
  double most = 0;
  for (std::size_t first = 0; first < count; ++first)
    for (std::size_t last = 0; last < count; ++last) {
      double before = 0, behind = 0;
      for (std::size_t m = 0; m < count; ++m) {
        if (m != first && depends[first][m]) before += node_seconds(m);
        if (m != last && depends[m][last]) behind += node_seconds(m);
      }
      before = std::max(before, sent([&](const ChainLink& link) {
                          return link.reader != ChainLink::kOutput && depends[first][static_cast<std::size_t>(link.reader)];
                        }));
      behind = std::max(behind, sent([&](const ChainLink& link) {
                          const std::int32_t producer = producers[link.value];
                          return producer >= 0 && depends[static_cast<std::size_t>(producer)][last];
                        }));
      most = std::max(most, before + between(first, last) + behind);
    }
  return most;
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

TEST_CASE("partition: the longer one of computing, exchanging, and what waits for each other, is a bound") {
  PartitionOptions options;
  options.processes = 4, options.seconds_per_byte = 1e-11;
  ChoiceFinder choices(4, roofline);
  for (const bool in_a_row : {false, true})
    for (const std::size_t count : {1, 2, 3, 8}) {
      INFO(count << " products" << (in_a_row ? " in a row" : ""));
      const Graph graph = products(count, in_a_row);
      options.overlapped = false;
      const Partition serial = partition(graph, choices, options);
      options.overlapped = true;
      const Partition overlapped = partition(graph, choices, options);
      REQUIRE((serial.found && overlapped.found));
      const double longest = std::max(overlapped.seconds - overlapped.exchange_seconds, overlapped.exchange_seconds);
      CHECK(longest <= serial.seconds * (1 + 1e-6));
      CHECK(overlapped.bound <= serial.seconds * (1 + 1e-6));
      CHECK(overlapped.bound >= 0.5 * serial.bound * (1 - 1e-6));
      // Products in a row wait for one another: nothing runs beside anything.
      if (in_a_row || count == 1)
        CHECK(overlapped.bound == Approx(serial.bound).epsilon(1e-4));
      else
        CHECK(overlapped.bound < 0.9 * serial.bound);
    }
}

TEST_CASE("partition: chains are the longest ones") {
  std::mt19937 random(7);
  const Operator& add = registry().get("Add");
  for (int round = 0; round < 20; ++round) {
    Graph graph;
    std::vector<ValueId> values{graph.add_input("a", {DataType::kFloat, {4}}), graph.add_input("b", {DataType::kFloat, {4}})};
    for (int n = 0; n < 8; ++n)
      values.push_back(
          graph.add_node(add, add.defaults(), {values[random() % values.size()], values[random() % values.size()]}).at(0));
    graph.add_output("y", values.back());
    graph.add_output("z", values[values.size() - 2]);
    const auto node_seconds = [&](std::size_t n) { return static_cast<double>((n + 1) * 7 % 5); };
    const auto link_seconds = [&](const ChainLink& link) {
      return static_cast<double>((link.value * 11 + link.port * 3 + static_cast<std::size_t>(link.reader + 1)) % 7);
    };
    const std::vector<Chain> chains = Chains(graph).longest(node_seconds, link_seconds, 0, 100);
    REQUIRE_FALSE(chains.empty());
    CHECK(chains[0].seconds == Approx(longest_by_trying(graph, node_seconds, link_seconds)));
    for (std::size_t k = 0; k < chains.size(); ++k) {
      double sum = 0;
      for (const std::size_t n : chains[k].nodes) sum += node_seconds(n);
      for (const ChainLink& link : chains[k].links) sum += link_seconds(link);
      CHECK(sum == Approx(chains[k].seconds));
      CHECK(chains[k].seconds <= chains[0].seconds);
    }
    CHECK(Chains(graph).longest(node_seconds, link_seconds, chains[0].seconds, 100).empty());
    CHECK(Chains(graph).longest(node_seconds, link_seconds, 0, 1).size() == 1);
  }
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
        CHECK(exchange_seconds(exchange, bytes, options) == Approx(simulated).epsilon(1e-6));
      };
      require(Exchange::kAllReduce, CollectiveKind::kAllReduce, bytes);
      require(Exchange::kAllGather, CollectiveKind::kAllGather, bytes);
      require(Exchange::kReduceScatter, CollectiveKind::kReduceScatter, bytes);
      require(Exchange::kAllToAll, CollectiveKind::kAllToAll, bytes / static_cast<double>(count));
    }
  }
}

TEST_CASE("partition: a quick one is one of those that the program chooses among, within the memory") {
  for (std::size_t count = 1; count < 4; ++count)
    for (const bool in_a_row : {false, true}) {
      const Graph graph = products(count, in_a_row);
      PartitionOptions options;
      options.processes = 4;
      options.latency = 5e-6, options.seconds_per_byte = 1 / 25e9;
      const auto partition_of = [&](bool quick) {
        options.quick = quick;
        ChoiceFinder choices(4, roofline);
        return partition(graph, choices, options);
      };
      const Partition best = partition_of(false);
      options.memory = best.given_bytes;
      const Partition quick = partition_of(true);
      REQUIRE(best.proved_best);
      REQUIRE(quick.found);
      CHECK_FALSE(quick.proved_best);
      CHECK(quick.given_bytes <= options.memory);
      CHECK(quick.seconds >= best.seconds * (1 - 1e-9));
      CHECK(quick.nodes.size() == graph.nodes().size());
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
