// Rules that look right and are not.
#include <catch2/catch.hpp>

#include "rules/instance.h"
#include "rules/io.h"

using namespace rewright;

TEST_CASE("every wrong rule is refuted by sampling", "[sampling]") {
  const auto rules = read_rules(std::filesystem::path("rules/testing/wrong.rules"));
  CHECK(rules.size() >= 20);
  for (const Rule& rule : rules) {
    const RuleTest test = test_rule(rule, 100, 1);
    INFO(rule.name);
    CHECK(test.outcome == TestOutcome::kRefuted);
    CHECK(!test.counterexample.empty());
  }
}

TEST_CASE("a rule without instances is undecided", "[sampling]") {
  const auto rules = parse_algebra("rule r: \"\" x[N] Relu(x) => Relu(x) where N < 0", "r");
  CHECK(test_rule(rules[0], 1, 1).outcome == TestOutcome::kTooFew);
}

TEST_CASE("sampling is the same for the same seed", "[sampling]") {
  const auto rules = read_rules(std::filesystem::path("rules/testing/wrong.rules"));
  CHECK(test_rule(rules[0], 100, 5).counterexample == test_rule(rules[0], 100, 5).counterexample);
}
