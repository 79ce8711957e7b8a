#include "optimizer/sizes.h"

#include <catch2/catch.hpp>

#include "optimizer/testing.h"

namespace rewright {

namespace {

// A product whose weights have so many rows.
Graph network(std::int64_t rows) {
  Graph graph;
  const ValueId x = graph.add_input("x", testing::floats({Index::symbol("N"), Index::symbol("H"), Index::symbol("W")}));
  graph.add_output("y", testing::add(graph, "MatMul", {x, graph.add_constant(testing::weights({rows, 4}))})[0]);
  return graph;
}

}  // namespace

TEST_CASE("sizes that are left open are taken as the operators need them") {
  CHECK(fitting_sizes(network(1), {}) == NamedSizes{{"N", 1}, {"H", 1}, {"W", 1}});
  CHECK(fitting_sizes(network(16), {}) == NamedSizes{{"N", 1}, {"H", 16}, {"W", 16}});
  CHECK(fitting_sizes(network(9), {{"W", 9}, {"N", 3}}) == NamedSizes{{"N", 3}, {"H", 1}, {"W", 9}});
  CHECK(fitting_sizes(network(9), {{"N", 3}}) == NamedSizes{{"N", 3}});  // nothing usual fits
}

}  // namespace rewright
