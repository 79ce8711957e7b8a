#include "plans/plan.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "operators/testing/share.h"
#include "optimizer/costs/cost_model.h"

namespace rewright::plans {

namespace {

using nlohmann::json;

double arithmetic(const Operator& op, const Attributes& attributes, OperandTypes types, double) {
  const OperatorTraits traits = operator_traits(op, attributes, types);
  return traits.operations / 1e11 + traits.bytes / 1e11;
}

ValueId add(Graph& graph, const char* name, std::vector<ValueId> inputs,
            std::initializer_list<std::pair<const char*, AttributeValue>> given = {}) {
  const Operator& op = registry().get(name);
  Attributes attributes = op.defaults();
  for (const auto& [field, value] : given) attributes.at(op.field(field).value()) = value;
  return graph.add_node(op, attributes, std::move(inputs)).at(0);
}

// Windows, partial sums, a reshape, an operator of two axes.
Graph network() {
  Graph graph;
  const auto weight = [&](const char* name, Indices shape) {
    return graph.add_input(name, {DataType::kFloat, std::move(shape)});
  };
  ValueId x = graph.add_input("x", {DataType::kFloat, {2, 3, 64, 64}});
  for (const int channels : {3, 16}) {
    const ValueId w = weight(channels == 3 ? "w1" : "w2", {16, channels, 3, 3});
    x = add(graph, "Relu", {add(graph, "Conv", {x, w}, {{"pads_begin", Indices{1, 1}}, {"pads_end", Indices{1, 1}}})});
  }
  x = add(graph, "MaxPool", {x},
          {{"kernel", Indices{3, 3}}, {"strides", Indices{2, 2}}, {"pads_begin", Indices{1, 1}}, {"pads_end", Indices{1, 1}}});
  x = add(graph, "Reshape", {x}, {{"shape", Indices{2, 16 * 32 * 32}}});
  x = add(graph, "Relu", {add(graph, "MatMul", {x, weight("w3", {16 * 32 * 32, 64})})});
  graph.add_output("y", add(graph, "Softmax", {add(graph, "MatMul", {x, weight("w4", {64, 16})})}));
  graph.tidy();
  return graph;
}

struct Planned {
  Graph graph = network();
  PartitionOptions options;
  Partition partition;
  Plan plan;
  Planned() {
    options.processes = 4, options.latency = 1e-7, options.seconds_per_byte = 1e-11;
    options.memory = 2e6;
    ChoiceFinder choices(4, arithmetic);
    partition = plans::partition(graph, choices, options);
    REQUIRE(partition.found);
    plan = make_plan(graph, partition, options);
  }
};

}  // namespace

TEST_CASE("plan: what is written is read, and proved") {
  const Planned p;
  const std::string text = write_plan(p.plan, p.graph);
  INFO(text);
  const Plan again = read_plan(text, "test");
  CHECK(write_plan(again, p.graph) == text);
  Plan in_pairs = p.plan;
  in_pairs.pairs = {100, 2000};
  CHECK(read_plan(write_plan(in_pairs, p.graph), "test").pairs == in_pairs.pairs);
  const PlanCheck check = check_plan(again, p.graph, {});
  CHECK(check.reason.empty());
  CHECK(check.proved);
  std::vector<std::string> exchanges;
  for (const PlannedExchange& e : p.plan.exchanges) exchanges.emplace_back(name(e.exchange));
  CHECK(std::count(exchanges.begin(), exchanges.end(), "halo") >= 2);
  CHECK(std::count(exchanges.begin(), exchanges.end(), "all-reduce") +
            std::count(exchanges.begin(), exchanges.end(), "reduce-scatter") >=
        1);
}

TEST_CASE("plan: of mutated plans none is proved") {
  const Planned p;
  const json good = json::parse(write_plan(p.plan, p.graph));
  std::mt19937 random(1);
  const auto pick = [&](std::size_t count) { return std::uniform_int_distribution<std::size_t>(0, count - 1)(random); };
  std::size_t proved = 0, mutants = 0;
  while (mutants < (testing::kSanitized ? 12u : 200u)) {
    json plan = good;
    switch (pick(4)) {
      case 0:  // a sum, a gather or a halo that is missing
        plan["exchanges"].erase(pick(plan["exchanges"].size()));
        break;
      case 1: {  // an exchange of another kind, or between other holdings
        json& e = plan["exchanges"][pick(plan["exchanges"].size())];
        const char* kinds[] = {"all-gather", "all-reduce", "reduce-scatter", "all-to-all", "halo"};
        e["exchange"] = kinds[pick(5)];
        break;
      }
      case 2: {  // a node's cut: another axis, unit or number of units, a halo one row shorter, an operand that is whole
        json& node = plan["nodes"][pick(plan["nodes"].size())];
        if (!node.contains("cut")) continue;
        const char* side = pick(2) ? "operands" : "outputs";
        json& share = node["cut"][side][pick(node["cut"][side].size())];
        if (!share.is_object() || share.contains("partial")) {
          share = {{"axis", pick(3)}, {"unit", 1}};
          break;
        }
        switch (pick(5)) {
          case 0:
            share["axis"] = (share["axis"].get<int>() + 1) % 4;
            break;
          case 1:
            share["unit"] = share["unit"].get<int>() + 1;
            break;
          case 2:
            share = "whole";
            break;
          case 3:
            if (!share.contains("before")) continue;
            share["before"] = share["before"].get<int>() - 1;
            break;
          default:
            if (!share.contains("after") || share["after"].get<int>() <= 0) continue;
            share["after"] = share["after"].get<int>() - 1;
        }
        break;
      }
      default: {  // a value that is held in another way than its readers suppose
        if (plan["given"].empty()) continue;
        json& held = plan["given"][pick(plan["given"].size())]["held"];
        if (!held.is_object()) continue;
        held["axis"] = (held["axis"].get<int>() + 1) % 2;
        break;
      }
    }
    if (plan == good) continue;
    ++mutants;
    try {
      const PlanCheck check = check_plan(read_plan(plan.dump(), "mutant"), p.graph, {});
      if (check.proved) WARN(json::diff(good, plan).dump());
      proved += check.proved;
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::kBadInput);
    }
  }
  CHECK(proved == 0);
}

}  // namespace rewright::plans
