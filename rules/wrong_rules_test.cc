// Rules that look right but are wrong.
#include <catch2/catch.hpp>

#include "operators/testing/share.h"
#include "rules/io.h"
#include "rules/tester.h"

using namespace rewright;
using namespace rewright::rules;

TEST_CASE("every wrong rule is refuted by sampling", "[sampling]") {
  const auto rules = read_rules(std::filesystem::path("rules/testing/wrong.rules"));
  CHECK(rules.size() >= 20);
  for (const Rule& rule : testing::share(rules)) {
    const RuleTest test = test_rule(rule, 100, 1);
    INFO(rule.name);
    CHECK(test.outcome == TestOutcome::kRefuted);
    REQUIRE(test.counterexample);
    CHECK(to_string(rule, *test.counterexample).find(": ") != std::string::npos);
  }
}

TEST_CASE("a rule without instances is undecided", "[sampling]") {
  const auto rules = parse_algebra("rule r: \"\" x[N] Relu(x) => Relu(x) where N < 0", "r");
  CHECK(test_rule(rules[0], 1, 1).outcome == TestOutcome::kTooFew);
}

TEST_CASE("sampling is the same for the same seed", "[sampling]") {
  const auto rules = read_rules(std::filesystem::path("rules/testing/wrong.rules"));
  const auto shown = [&] { return to_string(rules[0], *test_rule(rules[0], 100, 5).counterexample); };
  CHECK(shown() == shown());
}

TEST_CASE("counterexamples are as small as can be", "[sampling]") {
  const std::pair<const char*, const char*> cases[] = {
      {"x[M, N] Transpose(x; perm=[1, 0]) => Reshape(x; shape=[N, M])",
       "M = 2, N = 2, x[2, 2] = [[0, 0], [1, 0]]: output 0 at [0, 1] is 1 in the source and 0 in the target"},
      {"x, c Relu(x * c) => Relu(x) * c", "x[] = 1, c[] = -1: output 0 is 0 in the source and -1 in the target"},
      {"x[N, C, X], w[K, C, R] Conv(x, w; strides=[s]) => Conv(x, w; strides=[1])",
       "C = 1, K = 1, N = 1, R = 1, X = 2, s = 2, x[1, 1, 2], w[1, 1, 1]: "
       "output 0 is double[1, 1, 1] in the source and double[1, 1, 2] in the target"},
      {"x: integer Div(x, Fill(; value=2, shape=[], type=T)) => Div(Neg(Neg(x)), Fill(; value=3, shape=[], type=T))",
       "T = int64, x[]: int64 = 2: output 0 is 1 in the source and 0 in the target"},
  };
  for (const auto& [text, expected] : cases) {
    const Rule rule = parse_algebra(std::string("rule r: \"\" ") + text, "r")[0];
    const RuleTest test = test_rule(rule, 100, 1);
    INFO(text);
    REQUIRE(test.counterexample);
    CHECK(to_string(rule, *test.counterexample) == expected);
  }
}

TEST_CASE("a difference over the field alone is none", "[sampling]") {
  // In the field functions are hashes; over the reals these two are equal.
  const Rule rule = parse_algebra("rule r: \"\" x Erf(Neg(x)) => Neg(Erf(x))", "r")[0];
  CHECK(test_rule(rule, 50, 1).outcome == TestOutcome::kAgreed);
}
