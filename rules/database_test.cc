// Every rule of the shipped database holds on sampled instances, and can be written and read again.
#include <catch2/catch.hpp>

#include "operators/testing/share.h"
#include "rules/io.h"
#include "rules/tester.h"

using namespace rewright;
using namespace rewright::rules;

TEST_CASE("the database has rules of every kind", "[database]") {
  const RuleSet& rules = shipped_rules();
  CHECK(rules.rules().size() >= 40);
  for (const char* name :
       {"conv_batch_norm", "batch_norm_as_scale_and_shift", "conv_add", "conv_add_smaller", "conv_add_identity",
        "conv_add_batch_norm", "conv_concat", "conv_siblings", "matmul_associative", "matmul_add", "matmul_siblings",
        "pointwise_after_conv", "distributive", "transpose_transpose", "reshape_reshape"})
    CHECK(rules.find(name) != nullptr);
  for (const Rule& rule : rules.rules()) {
    CHECK(rule.proof.status == RuleStatus::kProved);
    CHECK(!rule.description.empty());
  }
}

TEST_CASE("both sides of every shipped rule agree on random instances", "[database][sampling]") {
  for (const Rule& rule : testing::share(shipped_rules().rules())) {
    const RuleTest test = test_rule(rule, static_cast<int>(testing::instances(30, 100)), 1);
    INFO(rule.name << ": " << (test.counterexample ? to_string(rule, *test.counterexample) : "") << " after " << test.instances
                   << " instances");
    CHECK(test.outcome == TestOutcome::kAgreed);
  }
}

TEST_CASE("every shipped rule survives being written and read", "[database][formats]") {
  for (Rule rule : shipped_rules().rules()) {
    rule.proof = {}, rule.origin = {};  // algebra does not store them
    INFO(to_algebra(rule));
    const auto read = parse_algebra(to_algebra(rule), "rule");
    REQUIRE(read.size() == 1);
    CHECK(read[0] == rule);
  }
  for (const RuleFormat format : {RuleFormat::kText, RuleFormat::kBinary}) {
    const std::string bytes = write_rules(shipped_rules().rules(), format);
    CHECK(read_rules(bytes, "rules") == shipped_rules().rules());
  }
}
