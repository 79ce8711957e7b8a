// XLA's rules in the algebra (rules/xla): those that are proved stay proved, with certificates that the checker accepts.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "operators/testing/share.h"
#include "rules/io.h"
#include "rules/tester.h"
#include "verifier/checker/check.h"
#include "verifier/proof.h"
#include "verifier/recording.h"

using namespace rewright;
using namespace rewright::proof;

namespace {

std::vector<Rule> corpus() {
  std::vector<Rule> rules;
  for (const char* file : {"arithmetic", "assembly", "layout", "logic", "others", "product"})
    for (Rule& rule : read_rules(std::filesystem::path("rules/xla") / (std::string(file) + ".rules")))
      rules.push_back(std::move(rule));
  return rules;
}

// The lowest ranks, so that the test is short: the smallest that has three ranks of cases, or all of a rule of one rank.
ProofLimits few_ranks() {
  ProofLimits limits;
  limits.maximum_rank = 3;
  return limits;
}

}  // namespace

// One of XLA's rules may be several here: of several types, or with a part that needs other operators ("the same ...").
TEST_CASE("more rules of XLA's are stated than TensorRight proves", "[xla]") {
  std::set<std::string> stated;
  for (const Rule& rule : corpus())
    if (!rule.description.starts_with("the same")) stated.insert(rule.description);
  CHECK(stated.size() > 115);
}

TEST_CASE("XLA's rules are proved, and the checker accepts the proofs", "[xla][long]") {
  const std::filesystem::path questions = std::filesystem::temp_directory_path() / "xla_test.questions.smt2";
  for (const Rule& rule : testing::share(corpus())) {
    Recording recording(rule, {}, questions);
    Solver solver;
    ProofSearch proof = search_proof(rule, few_ranks(), solver, &recording);
    INFO(rule.name << ": " << proof.open_question);
    REQUIRE(proof.found);
    if (proof.cases > 60) continue;  // larger ones are checked by bench/xla
    proof.all_ranks = proof.ranks == CaseEnumerator(rule, solver).largest_rank(ProofLimits().maximum_rank);
    CheckOptions options;
    options.tested_cases = 2;
    const CertificateCheck check = check_certificate(write_certificate(recording.finish(proof)), rule.name, options);
    INFO(check.reason);
    CHECK(check.accepted);
  }
}

// Rules that stay open are at least not wrong as far as random instances tell.
TEST_CASE("rules of XLA's that are not proved are not refuted", "[xla]") {
  for (const Rule& rule : read_rules(std::filesystem::path("rules/xla/open/open.rules"))) {
    INFO(rule.name);
    CHECK(!test_rule(rule, static_cast<int>(testing::instances(40)), 1).counterexample);
  }
}
