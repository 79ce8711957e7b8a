#include "report/plan_page.h"

#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "optimizer/testing.h"
#include "plans/groups/step.h"
#include "report/testing/graphviz_leaks.h"

namespace rewright::report {

using nlohmann::json;
using testing::add;
using testing::floats;

namespace {

constexpr const char* kFacts = R"({"output": "a</script>", "strategies": {}})";

json data_of(const std::string& page) {
  const std::string open = R"(id="data">)";
  const std::size_t begin = page.find(open) + open.size();
  return json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

}  // namespace

TEST_CASE("a plan's page says how each node is cut, and when each process computes it") {
  Graph graph;
  const ValueId x = graph.add_input("</script>", floats({8, 16})), w = graph.add_input("w", floats({16, 8}));
  const ValueId product = add(graph, "MatMul", {x, w})[0];
  graph.add_output("y", add(graph, "Softmax", {product})[0]);
  plans::MachineDescription description;
  description.devices = description.per_node = 2;
  description.rates = plans::DeviceRates{1e9, 1e9, 1e-6};
  description.node = plans::NetworkDescription{.latency = 1e-6, .bytes_per_second = 1e9};
  const plans::Machine machine(description);

  // The sum over 16 in two parts; each process then computes the whole softmax.
  const plans::Share columns{plans::Share::Kind::kCut, 1}, rows{plans::Share::Kind::kCut, 0},
      sums{plans::Share::Kind::kPartial};
  const plans::Cut cut{16, {columns, rows}, {sums}, {}};
  plans::PartitionOptions options;
  options.processes = 2;
  plans::Partition partition;
  const Node& node = *graph.nodes()[0];
  partition.nodes.push_back(*plans::make_choice(graph.operand_types(node), {graph.value(product).type}, cut, 2));
  partition.nodes.push_back(plans::whole_choice(*graph.nodes()[1]));
  partition.nodes[0].seconds = 3e-6, partition.nodes[1].seconds = 2e-6;
  partition.given.resize(graph.value_count());
  plans::Simulation simulation(machine);
  simulate_step(simulation, graph, partition, options);
  simulation.run();
  const plans::Plan plan = plans::make_plan(graph, partition, options);

  const std::string page = plan_page({plan, graph, nullptr, simulation, kFacts});
  const json data = data_of(page);
  CHECK(data.at("facts").at("output") == "a</script>");
  std::map<std::string, std::string> kinds;
  for (const json& region : data.at("drawing").at("regions"))
    for (const json& drawn : region.at("nodes")) kinds[drawn.at("operator")] = drawn.at("kind");
  CHECK(kinds == std::map<std::string, std::string>{{"MatMul", "partial"}, {"Softmax", "whole"}});
  REQUIRE(data.at("exchanges").size() == 1);
  CHECK(data.at("exchanges")[0].at("exchange") == "all-reduce");
  const json& timeline = data.at("timeline");
  CHECK(timeline.at("of") == 2);
  REQUIRE(timeline.at("processes").size() == 2);
  for (const json& process : timeline.at("processes")) {
    const json& computing = process.at("computing");
    REQUIRE(computing.size() == 2);
    CHECK(computing[0][2] == "partial");
    CHECK(computing[0][1].get<double>() == Approx(3e-3));
    CHECK(computing[1][2] == "whole");
    REQUIRE(process.at("exchanging").size() == 1);
    // The sum begins behind the product, and the softmax waits for it.
    CHECK(process.at("exchanging")[0][0].get<double>() >= 3e-3 - 1e-9);
    CHECK(computing[1][0].get<double>() + 2e-3 == Approx(timeline.at("ms").get<double>()));
  }
}

}  // namespace rewright::report
