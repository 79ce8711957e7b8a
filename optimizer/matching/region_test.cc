#include "optimizer/matching/region.h"

#include <catch2/catch.hpp>

#include "optimizer/testing.h"

namespace rewright::optimizer {

using testing::add;
using testing::floats;
using testing::weights;

TEST_CASE("a region taken out and put back leaves the graph as it was") {
  const Graph graph = testing::adapters(4, 8, 2);
  for (const auto& nodes : split(graph, graph.constant_values(), 7, 0)) {
    const Region region = extract(graph, nodes);
    const std::optional<Graph> whole = splice(graph, region, region.graph);
    REQUIRE(whole);
    CHECK(whole->hash() == graph.hash());
    CHECK(whole->nodes().size() == graph.nodes().size());
  }
}

TEST_CASE("regions cover all nodes once, and borders lie where few values cross") {
  const Graph graph = testing::adapters(6, 8, 2);
  for (const int shift : {0, 1}) {
    std::vector<int> covered(graph.nodes().size());
    for (const auto& nodes : split(graph, graph.constant_values(), 7, shift)) {
      CHECK(nodes.size() <= 7);
      for (const std::uint32_t n : nodes) ++covered[n];
      CHECK(extract(graph, nodes).graph.outputs().size() == 1);
    }
    CHECK(covered == std::vector<int>(graph.nodes().size(), 1));
  }
}

TEST_CASE("equal regions are known by their structure, whatever their weights") {
  const Graph graph = testing::adapters(3, 8, 2);
  const auto regions = split(graph, graph.constant_values(), 6, 0);
  REQUIRE(regions.size() == 3);
  const std::uint64_t first = structure_hash(extract(graph, regions[0]).graph);
  CHECK(first == structure_hash(extract(graph, regions[1]).graph));
  CHECK(first == structure_hash(extract(graph, regions[2]).graph));
}

TEST_CASE("a skeleton does not tell how constants are computed, or in which order nodes stand") {
  const auto make = [](bool computed, bool exchanged) {
    Graph graph;
    const ValueId x = graph.add_input("x", floats({2, 3}));
    ValueId w = graph.add_constant(weights({3, 3}));
    if (computed) w = add(graph, "Add", {w, w})[0];
    const ValueId p = add(graph, "MatMul", {x, w})[0];
    graph.add_output("y", add(graph, "Mul", exchanged ? std::vector{x, p} : std::vector{p, x})[0]);
    return skeleton_hash(graph, graph.constant_values());
  };
  CHECK(make(false, false) == make(true, false));
  CHECK(make(false, false) == make(false, true));
}

}  // namespace rewright::optimizer
