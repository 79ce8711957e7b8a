#include "rules/draw.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "rules/io.h"

using namespace rewright;
using namespace rewright::rules;

TEST_CASE("a rule is drawn as two clusters that share its inputs", "[draw]") {
  const Rule rule = parse_algebra(
      "rule r: \"a \\ b\" x[M, K], a[K, N], b[N] MatMul(x, a) - b => Sub(MatMul(x, Relu(a)), b) where M > 1, K != N", "r")[0];
  const std::string dot = to_dot(rule);
  using Catch::Contains;
  CHECK_THAT(dot, Contains("digraph \"r\" {") && Contains("label=\"r: a \\\\ b\"") && Contains("cluster_source") &&
                      Contains("cluster_target"));
  CHECK_THAT(dot, Contains("\"input x\" [shape=ellipse, label=\"x[M, K]\"]"));
  CHECK_THAT(dot, Contains("\"input x\" -> \"source 0\" [label=\"0\"]") && Contains("\"input a\" -> \"target 0\";"));
  CHECK_THAT(dot, Contains("\"source 1\" -> \"source output 0\"") && Contains("shape=note") && Contains("K != N"));
}

TEST_CASE("attributes are in the labels, and outputs by their number on the edges", "[draw]") {
  const std::string dot = to_dot(
      parse_algebra("rule r: \"\" x[N, K] let y = Split(x; axis=1, sizes=[a, b]) Concat(y.0, y.1; axis=1) => x", "r")[0]);
  CHECK_THAT(dot, Catch::Contains("Split\\naxis = 1\\nsizes = [a, b]") && Catch::Contains("[label=\".1 1\"]"));
}

TEST_CASE("every shipped rule can be drawn: quotes and braces are balanced", "[draw][database]") {
  for (const Rule& rule : shipped_rules().rules()) {
    const std::string dot = to_dot(rule);
    int depth = 0;
    bool quoted = false;
    for (std::size_t i = 0; i < dot.size(); ++i) {
      if (quoted && dot[i] == '\\') {
        ++i;
      } else if (dot[i] == '"') {
        quoted = !quoted;
      } else if (!quoted) {
        depth += dot[i] == '{' ? 1 : dot[i] == '}' ? -1 : 0;
      }
    }
    INFO(dot);
    CHECK(depth == 0);
    CHECK_FALSE(quoted);
    for (const PatternInput& input : rule.inputs) CHECK(dot.find("\"input " + input.name + "\" ->") != std::string::npos);
  }
}
