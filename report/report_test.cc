#include "report/report.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "optimizer/testing.h"
#include "report/testing/graphviz_leaks.h"

namespace rewright::report {

using nlohmann::json;
using testing::add;
using testing::floats;
using testing::weights;

namespace {

struct Page {
  OptimizeResult result;
  std::string text;
  json data;
};

Page page_of(const Graph& graph, const OptimizeOptions& options = {}) {
  testing::RooflineDevice device;
  const auto evaluator = make_reference_evaluator();
  Page page{optimize(graph, testing::rules(), device, *evaluator, nullptr, options), {}, {}};
  const ReportSource source{
      graph, page.result, testing::rules(), options, {{0, 2e-3}, {0.5, 1e-3}}, R"({"input": "a</script>"})"};
  page.text = report_page(source, device, nullptr, *evaluator);
  const std::string open = R"(id="data">)";
  const std::size_t begin = page.text.find(open) + open.size();
  page.data = json::parse(page.text.substr(begin, page.text.find("</script>", begin) - begin));
  return page;
}

std::vector<json> nodes_of(const json& drawing) {
  std::vector<json> nodes;
  for (const json& region : drawing.at("regions"))
    for (const json& node : region.at("nodes")) nodes.push_back(node);
  return nodes;
}

}  // namespace

TEST_CASE("a page holds both graphs, what each step gained, and the rules") {
  const Graph graph = testing::adapters(12, 32, 4);
  const Page page = page_of(graph);
  REQUIRE(page.result.report.changed);
  for (const auto& [side, whole] : {std::pair("before", &graph), std::pair("after", &page.result.graph)}) {
    const json& drawing = page.data.at(side);
    const std::vector<json> nodes = nodes_of(drawing);
    CHECK(nodes.size() + drawing.at("left_out").get<std::size_t>() == whole->nodes().size());
    std::set<std::size_t> positions;
    double ms = 0;
    for (const json& node : nodes) {
      positions.insert(node.at("position").get<std::size_t>());
      ms += node.at("ms").get<double>();
      CHECK(node.at("operator") == whole->nodes()[node.at("position").get<std::size_t>()]->op->name());
    }
    CHECK(positions.size() == nodes.size());
    const Quantities& predicted =
        side == std::string("before") ? page.result.report.quantities_before : page.result.report.quantities_after;
    CHECK(ms == Approx(predicted.seconds * 1e3));
    CHECK(drawing.at("held_bytes").size() == whole->nodes().size() + 1);
  }
  CHECK(page.data.at("before").at("regions").size() > 1);
  CHECK(page.data.at("before").at("regions")[1].at("same_as") == 0);

  double gained = 0;
  std::size_t rewrites = 0;
  for (const json& step : page.data.at("steps")) {
    gained += step.at("gain_ms").get<double>();
    rewrites += step.at("rewrites").size();
    for (const json& rewrite : step.at("rewrites"))
      CHECK(page.data.at("rules").contains(rewrite.at("rule").get<std::string>()));
  }
  CHECK(rewrites == page.result.report.rules_applied.size());
  CHECK(gained == Approx((page.result.report.predicted_before - page.result.report.predicted_after) * 1e3));
  CHECK(page.data.at("certificate") == to_json(page.result.certificate));
  CHECK(page.data.at("curve")[1][1] == 1.0);
}

TEST_CASE("every value that a region reads from another leaves that one") {
  const Page page = page_of(testing::adapters(12, 32, 4));
  for (const char* side : {"before", "after"}) {
    std::set<std::uint32_t> exits;
    std::size_t within = 0;
    for (const json& region : page.data.at(side).at("regions")) {
      for (const json& port : region.at("entries")) {
        if (port.at("graph").get<bool>()) continue;
        CHECK(exits.contains(port.at("value").get<std::uint32_t>()));
        ++within;
      }
      for (const json& port : region.at("exits")) exits.insert(port.at("value").get<std::uint32_t>());
    }
    if (side == std::string("before")) CHECK(within > 0);
  }
}

TEST_CASE("names of a model cannot end the page's data") {
  Graph graph;
  const ValueId x = graph.add_input("</script><img src=x>", floats({4, 4}));
  const Operator& relu = registry().get("Relu");
  graph.add_output("y", graph.add_node(relu, relu.defaults(), {x}, {"<!--<script>{{D3}}"})[0]);
  const Page page = page_of(graph);
  CHECK(page.data.at("facts").at("input") == "a</script>");
  CHECK(page.text.find("<img") == std::string::npos);
  CHECK(nodes_of(page.data.at("before")).at(0).at("name") == "<!--<script>{{D3}}");
}

TEST_CASE("what did not change is kept, and is the same in both") {
  Graph graph;
  const ValueId x = graph.add_input("x", floats({4, 4}));
  graph.add_output("y", add(graph, "MatMul", {add(graph, "Tanh", {x})[0], graph.add_constant(weights({4, 4}))})[0]);
  const Page page = page_of(graph);
  CHECK_FALSE(page.result.report.changed);
  CHECK(page.data.at("before").at("regions") == page.data.at("after").at("regions"));
  for (const json& step : page.data.at("steps")) CHECK(step.at("rewrites").empty());
}

}  // namespace rewright::report
