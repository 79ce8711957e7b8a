#include "report/svg.h"

#include <catch2/catch.hpp>

#include "optimizer/testing.h"

namespace rewright::report {

namespace {

std::size_t occurrences(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("an image has a box for each node, and nodes that the other graph lacks are marked") {
  Graph before;
  const ValueId x = before.add_input("x<y>", {DataType::kFloat, to_indices(std::vector<std::int64_t>{2, 3})});
  const ValueId a = before.add_node(registry().get("Relu"), {}, {x}).at(0);
  before.add_output("y", a);
  Graph after = before;
  after.set_outputs({});
  after.add_output("y", after.add_node(registry().get("Abs"), {}, {a}).at(0));
  const std::string alone = graph_svg(after), marked = graph_svg(after, &before);
  CHECK(alone.starts_with("<svg "));
  CHECK(occurrences(alone, "<title>") == 2);
  CHECK(occurrences(alone, "class=\"operator\">Relu<") == 1);
  CHECK(occurrences(alone, "[2, 3]") == 2);
  CHECK(occurrences(alone, "x&lt;y&gt;") == 1);
  CHECK(occurrences(alone, "class=\"new\"") == 0);
  CHECK(occurrences(marked, "class=\"new\"") >= 1);
}

TEST_CASE("a graph without nodes is an image, too") {
  Graph graph;
  graph.add_output("y", graph.add_input("x", {DataType::kFloat, {}}));
  CHECK(graph_svg(graph).starts_with("<svg "));
}

}  // namespace rewright::report
