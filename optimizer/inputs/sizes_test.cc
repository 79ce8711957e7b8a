#include "optimizer/inputs/sizes.h"

#include <catch2/catch.hpp>

#include "operators/testing.h"
#include "optimizer/testing.h"

namespace rewright::optimizer {

namespace {

const Index n = Index::symbol("N"), h = Index::symbol("H"), w = Index::symbol("W");

// A product whose weights have this many rows.
Graph network(std::int64_t rows) {
  Graph graph;
  const ValueId x = graph.add_input("x", testing::floats({n, h, w}));
  graph.add_output("y", testing::add(graph, "MatMul", {x, graph.add_constant(testing::weights({rows, 4}))})[0]);
  return graph;
}

ValueId add_named(Graph& graph, const char* op, std::vector<ValueId> inputs, const testing::Named& named) {
  const Operator& found = registry().get(op);
  return graph.add_node(found, testing::attributes(found, named), std::move(inputs))[0];
}

NamedSizes first_choice(const Graph& graph, const NamedSizes& given) { return fitting_sizes(graph, given).front(); }

}  // namespace

TEST_CASE("sizes that are left open are taken as the operators need them") {
  CHECK(first_choice(network(1), {}) == NamedSizes{{"N", 1}, {"H", 16}, {"W", 1}});
  CHECK(first_choice(network(16), {}) == NamedSizes{{"N", 1}, {"H", 16}, {"W", 16}});
  CHECK(first_choice(network(9), {{"N", 3}}) == NamedSizes{{"N", 3}, {"H", 16}, {"W", 9}});
  CHECK(first_choice(network(9), {{"W", 9}, {"N", 3}}) == NamedSizes{{"N", 3}, {"H", 16}, {"W", 9}});
  CHECK(first_choice(network(9), {{"W", 8}}) == NamedSizes{{"W", 8}});  // nothing fits
}

TEST_CASE("a first axis that is indexed is no batch") {
  Graph graph;
  const ValueId x = graph.add_input("x", testing::floats({n, 4}));
  const ValueId edges = graph.add_input("edges", {DataType::kInt64, {2, h}});
  graph.add_output("y", testing::add(graph, "Gather", {x, edges})[0]);
  CHECK(first_choice(graph, {}) == NamedSizes{{"N", 16}, {"H", 16}});
}

TEST_CASE("sizes that are joined, cut and reshaped are solved for") {
  Graph graph;
  const ValueId x = graph.add_input("x", testing::floats({n, h})), y = graph.add_input("y", testing::floats({n, w}));
  const ValueId both = add_named(graph, "Concat", {x, y}, {{"axis", Index(1)}});
  const ValueId cut = add_named(graph, "Reshape", {both}, {{"shape", Indices{n, 6, floor_div(h + w, 6)}}});
  const ValueId table = graph.add_constant(testing::weights({5, 6, 1}));
  graph.add_output("z", testing::add(graph, "Add", {cut, table})[0]);
  const NamedSizes found = first_choice(graph, {});
  CHECK((found.at("H") + found.at("W")) % 6 == 0);
  CHECK((found.at("N") == 1 || found.at("N") == 5));
  CHECK(found.size() == 3);
}

TEST_CASE("a window fits into the size that is chosen") {
  Graph graph;
  const ValueId x = graph.add_input("x", testing::floats({n, 1, h}));
  const ValueId kernel = graph.add_constant(testing::weights({1, 1, 10}));
  graph.add_output("y", add_named(graph, "Conv", {x, kernel}, {{"strides", Indices{5}}}));
  CHECK(first_choice(graph, {}).at("H") >= 10);
}

TEST_CASE("a height and a width that fit together alone are found") {
  // Halved three times and split into patches of 8 rows and 12 columns.
  Graph graph;
  ValueId x = graph.add_input("x", testing::floats({n, 1, h, w}));
  for (int i = 0; i < 3; ++i) x = add_named(graph, "MaxPool", {x}, {{"kernel", Indices{2, 2}}, {"strides", Indices{2, 2}}});
  const Index rows = floor_div(h, 8), columns = floor_div(w, 8);
  const ValueId patches =
      add_named(graph, "Reshape", {x}, {{"shape", Indices{n * floor_div(rows, 8) * floor_div(columns, 12), 8, 12}}});
  const ValueId weights = graph.add_constant(testing::weights({12, 8}));
  const ValueId mixed = testing::add(graph, "MatMul", {patches, weights})[0];
  const ValueId back = add_named(graph, "Reshape", {mixed}, {{"shape", Indices{n, 1, 8, 8}}});
  graph.add_output("y", add_named(graph, "Concat", {back, x}, {{"axis", Index(3)}}));
  const NamedSizes found = first_choice(graph, {});
  CHECK(found == NamedSizes{{"N", 1}, {"H", 64}, {"W", 96}});
}

TEST_CASE("other choices are other sizes that fit") {
  const std::vector<NamedSizes> choices = fitting_sizes(network(7), {});
  REQUIRE(choices.size() > 2);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    CHECK(choices[i].at("W") == 7);
    for (std::size_t k = 0; k < i; ++k) CHECK(choices[i] != choices[k]);
  }
  CHECK(fitting_sizes(network(7), {{"N", 2}, {"H", 3}, {"W", 7}}).size() == 1);
}

TEST_CASE("a device that cannot run one choice is given the next") {
  class Picky final : public testing::RooflineDevice {
   public:
    std::vector<std::vector<double>> time_graphs(std::span<const Graph> graphs, const TimingOptions& options) override {
      if (graphs[0].value(graphs[0].inputs()[0]).type.shape[1].value() < 30) throw Error(ErrorCode::kBadInput, "too short");
      return RooflineDevice::time_graphs(graphs, options);
    }
  };
  Picky device;
  const Graph graph = network(7);
  const NamedSizes found = executable_sizes(graph, fitting_sizes(graph, {}), device, {});
  CHECK(found.at("H") >= 30);
  CHECK(found.at("W") == 7);
}

TEST_CASE("open first axes are measured with many rows, too, as far as that takes little") {
  class Limited final : public testing::RooflineDevice {
   public:
    std::vector<std::vector<double>> time_graphs(std::span<const Graph> graphs, const TimingOptions& options) override {
      if (graphs[0].value(graphs[0].inputs()[0]).type.shape[0].value() > most) throw Error(ErrorCode::kBadInput, "too many");
      return RooflineDevice::time_graphs(graphs, options);
    }
    std::int64_t most = 1 << 20;
  };
  Limited device;
  const auto rows = [&](const Graph& graph, const NamedSizes& given) -> std::int64_t {
    const NamedSizes chosen = first_choice(graph, given);
    const std::optional<NamedSizes> more = with_more_rows(graph, given, chosen, device, {});
    if (!more) return 0;
    for (const auto& [name, size] : *more) CHECK((name == "N" || size == chosen.at(name)));
    return more->at("N");
  };
  const auto product = [](std::int64_t width) {
    Graph graph;
    const ValueId x = graph.add_input("x", testing::floats({n, width}));
    graph.add_output("y", testing::add(graph, "MatMul", {x, graph.add_constant(testing::weights({width, width}))})[0]);
    return graph;
  };
  CHECK(rows(network(7), {}) == 1000);
  CHECK(rows(network(7), {{"N", 1}}) == 0);  // said by the caller
  CHECK(rows(product(512), {}) == 256);      // 2 * 512^2 operations a row
  CHECK(rows(product(2048), {}) == 16);
  device.most = 100;
  CHECK(rows(network(7), {}) == 64);
  device.most = 1;
  CHECK(rows(network(7), {}) == 0);
  Graph table;  // positions on its first axis
  const ValueId x = table.add_input("x", testing::floats({n, 4})), edges = table.add_input("edges", {DataType::kInt64, {2, h}});
  table.add_output("y", testing::add(table, "Gather", {x, edges})[0]);
  CHECK(rows(table, {}) == 0);
}

}  // namespace rewright::optimizer
