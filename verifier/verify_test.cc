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
  for (const char* conditions : {"N < 0", "N == 2, N mod 2 == 1", "N < M, M < N", "M == 2 * N, M mod 2 == 1"}) {
    INFO(conditions);
    // The rule is true, and remains so with the last word on both sides: all that is wrong are the conditions.
    for (const char* sides : {"Relu(Relu(x)) => Relu(x)", "Relu(x) => Neg(x)"}) {
      const Verdict v = verdict_of(std::string("rule r: \"\" x[N, M] ") + sides + " where " + conditions);
      CHECK(v.outcome == Outcome::kInvalid);
      CHECK(v.explanation == "its conditions contradict each other");
    }
  }
}

TEST_CASE("sides that are ill-typed for all sizes", "[verify]") {
  CHECK(verdict_of("rule r: \"\" x[M, N], y[N] Relu(Conv(x, y)) => x").outcome == Outcome::kInvalid);
  CHECK(verdict_of("rule r: \"\" x[M] Relu(x) => Conv(x, x)").outcome == Outcome::kInvalid);
  CHECK(verdict_of("rule r: \"\" x[M], y[M + 2, M] MatMul(MatMul(y, y), x) => x").outcome == Outcome::kInvalid);
}

TEST_CASE("what the target needs to be well-typed becomes a condition", "[verify]") {
  const struct {
    const char* rule;
    std::vector<std::string> conditions;
  } cases[] = {
      {"x[M, N], y[K, L] Relu(x), Relu(y) => Relu(x), Slice(Relu(Concat(x, y; axis=0)); begin=[M, 0], length=[K, L])",
       {"L == N"}},
      {"x[A, N], y[B, N], z[C, N], w[D, N] Concat(x + y, z + w; axis=0) => Concat(x, z; axis=0) + Concat(y, w; axis=0)",
       {"A == B", "C == D"}},
      {"x[M, N] Relu(x) + Transpose(x; perm=[1, 0]) => Transpose(x; perm=[1, 0]) + Relu(x)", {}},
  };
  for (const auto& c : cases) {
    const Verdict v = verdict_of(std::string("rule r: \"\" ") + c.rule);
    INFO(c.rule << ": " << v.explanation);
    CHECK(v.outcome == Outcome::kProved);
    CHECK(v.conditions == c.conditions);
    // The rule carries them: it is proved as it stands.
    CHECK(verify(v.rule).conditions.empty());
    CHECK(v.rule.conditions.size() == c.conditions.size());
  }
}

TEST_CASE("a rule that is wrong with the conditions that it needs is refuted", "[verify]") {
  const Verdict v = verdict_of("rule r: \"\" x[M, N], y[N, K], z[L, M] MatMul(z, MatMul(x, y)) => MatMul(MatMul(x, z), y)");
  CHECK(v.outcome == Outcome::kRefuted);
  // Here no condition makes the shapes agree where nothing is broadcast.
  CHECK(verdict_of("rule r: \"\" x[A, N], y[B, N], c[C, N] Concat(x + c, y + c; axis=0) => Concat(x, y; axis=0) + c").outcome ==
        Outcome::kRefuted);
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
