#include "verifier/verify.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <iostream>

#include "rules/io.h"

using namespace rewright;

namespace {

Verdict verdict_of(const std::string& text) { return verify(parse_algebra(text, "test").at(0)); }

}  // namespace

TEST_CASE("every wrong rule is refuted, none is proved", "[verify]") {
  const auto rules = read_rules(std::filesystem::path("rules/testing/wrong.rules"));
  for (const Rule& rule : rules) {
    const Verdict v = verify(rule);
    INFO(rule.name << ": " << v.explanation);
    CHECK(v.outcome == Outcome::kRefuted);
    CHECK(!v.explanation.empty());
  }
}

TEST_CASE("rules with a missing condition are not proved", "[verify]") {
  for (const Rule& rule : read_rules(std::filesystem::path("verifier/testdata/wrong.rules"))) {
    const Verdict v = verify(rule);
    INFO(rule.name << ": " << v.explanation);
    CHECK(v.outcome == Outcome::kRefuted);
  }
}

TEST_CASE("a quotient is 1 only where the divisor is not 0", "[verify]") {
  CHECK(verdict_of("rule r: \"\" x[N] x / x => Fill(; value=1, shape=[N], type=T)").outcome != Outcome::kProved);
  CHECK(verdict_of("rule r: \"\" x[N] x * Reciprocal(x) => Fill(; value=1, shape=[N], type=T)").outcome != Outcome::kProved);
}

TEST_CASE("true rules are proved for all sizes", "[verify]") {
  for (const Rule& rule : read_rules(std::filesystem::path("verifier/testdata/true.rules"))) {
    const Verdict v = verify(rule);
    INFO(rule.name << ": " << v.explanation);
    CHECK(v.outcome == Outcome::kProved);
    CHECK(v.all_ranks);
  }
}

TEST_CASE("a rule over all ranks, with broadcasting", "[verify]") {
  const Verdict v = verdict_of("rule r: \"\" x, y Relu(Neg(x)) + y => y + Relu(x * -1)");
  CHECK(v.outcome == Outcome::kProved);
  CHECK(v.cases > 30);
}

TEST_CASE("conditions that contradict each other prove nothing", "[verify]") {
  CHECK(verdict_of("rule r: \"\" x[N] Relu(x) => Neg(x) where N < 0").outcome == Outcome::kUndecided);
  CHECK(verdict_of("rule r: \"\" x[N] Relu(x) => Neg(x) where N == 2, N mod 2 == 1").outcome == Outcome::kUndecided);
}

TEST_CASE("a condition that the target needs is named", "[verify]") {
  const Verdict v = verdict_of("rule r: \"\" x[M, N], y[N, K], z[L, M] MatMul(z, MatMul(x, y)) => MatMul(MatMul(x, z), y)");
  CHECK(v.outcome == Outcome::kRefuted);
  CHECK(!v.missing.empty());
}

// All shipped rules, with the time that each takes; RULES names another file, RULE a part of the names.
TEST_CASE("the database", "[.database]") {
  const char *file = std::getenv("RULES"), *part = std::getenv("RULE");
  int count[3] = {0, 0, 0};
  double total = 0;
  for (const Rule& rule : file ? read_rules(std::filesystem::path(file)) : shipped_rules().rules()) {
    if (part && rule.name.find(part) == std::string::npos) continue;
    const auto start = std::chrono::steady_clock::now();
    const Verdict v = verify(rule);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    total += seconds;
    ++count[static_cast<int>(v.outcome)];
    std::cout << name(v.outcome) << ' ' << rule.name << ' ' << seconds << " s, " << v.cases << " cases to rank " << v.ranks
              << (v.all_ranks ? ", " : " only, ") << v.queries.size() << " queries " << v.explanation << std::endl;
  }
  std::cout << count[0] << " proved, " << count[1] << " refuted, " << count[2] << " undecided in " << total << " s\n";
  CHECK(count[1] + count[2] == 0);
}
