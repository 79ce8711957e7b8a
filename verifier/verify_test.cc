#include "verifier/verify.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <iostream>

#include "operators/testing/share.h"
#include "rules/io.h"

using namespace rewright;
using namespace rewright::proof;

namespace {

Verdict verdict_of(const std::string& text) { return verify(parse_algebra(text, "test").at(0)); }

// Conditions that would make a wrong rule right have separate tests.
Verdict verdict_alone(const Rule& rule) {
  VerifyOptions options;
  options.suggest_conditions = false;
  return verify(rule, options);
}

}  // namespace

TEST_CASE("every wrong rule is refuted, none is proved", "[verify]") {
  for (const Rule& rule : testing::share(read_rules(std::filesystem::path("rules/testing/wrong.rules")))) {
    const Verdict v = verdict_alone(rule);
    INFO(rule.name << ": " << v.explanation);
    CHECK(v.outcome == Outcome::kRefuted);
    CHECK(!v.explanation.empty());
  }
}

TEST_CASE("rules with a missing condition are not proved", "[verify][long]") {
  for (const Rule& rule : testing::share(read_rules(std::filesystem::path("verifier/testdata/wrong.rules")))) {
    const Verdict v = verdict_alone(rule);
    INFO(rule.name << ": " << v.explanation);
    CHECK(v.outcome == Outcome::kRefuted);
  }
}

TEST_CASE("a quotient is 1 only where the divisor is not 0", "[verify]") {
  CHECK(verdict_of("rule r: \"\" x[N] x / x => Fill(; value=1, shape=[N], type=T)").outcome != Outcome::kProved);
  CHECK(verdict_of("rule r: \"\" x[N] x * Reciprocal(x) => Fill(; value=1, shape=[N], type=T)").outcome != Outcome::kProved);
  CHECK(verdict_of("rule r: \"\" x[N] x - x => Pow(x, -1) - Pow(x, -1)").outcome != Outcome::kProved);
  CHECK(verdict_of("rule r: \"\" x[N] Abs(x) => Sqrt(x * x)").outcome != Outcome::kProved);
  CHECK(verdict_of("rule r: \"\" x[1], i[N]: int64 Where(Equal(i, i), Expand(x; shape=[N]), Expand(x; shape=[N])) => Gather(x, "
                   "i; axis=0)")
            .outcome != Outcome::kProved);
}

TEST_CASE("true rules are proved for all sizes", "[verify]") {
  for (const Rule& rule : testing::share(read_rules(std::filesystem::path("verifier/testdata/true.rules")))) {
    const Verdict v = verify(rule);
    INFO(rule.name << ": " << v.explanation);
    CHECK(v.outcome == Outcome::kProved);
    CHECK(v.all_ranks);
  }
}

TEST_CASE("rules of trees are proved by what trees see", "[verify]") {
  const auto outcome = [](const std::string& inputs, const std::string& source, const std::string& target) {
    return verdict_of("rule r: \"\" " + inputs +
                      ", t[B], b[B, 3]: int64, r[R]: int64, g[G]: int64, v[V]: int64, w[V] TreeScores(" + source +
                      "; scores=C, columns=D) => TreeScores(" + target + ")")
        .outcome;
  };
  const std::string trees = "t, b, r, g, v, w", rest = "; scores=C, columns=D";
  CHECK(outcome("x[N, K], s[K]", "x * s, " + trees, "x, " + trees + ", _, _, _, _, s" + rest) == Outcome::kProved);
  CHECK(outcome("x[N, K], s[K]", "x * s, " + trees, "x, " + trees + rest) != Outcome::kProved);
  CHECK(outcome("x[N, K], s[K]", "x * s, " + trees, "x, " + trees + ", _, _, _, s" + rest) != Outcome::kProved);
  CHECK(outcome("x[N, K], o[K]", "x + o, " + trees, "x, " + trees + ", _, _, _, o" + rest) == Outcome::kProved);
  CHECK(outcome("x[N, K], o[K], s[K]", "x + o, " + trees + ", _, _, s", "x, " + trees + ", _, _, s, o" + rest) !=
        Outcome::kProved);
  CHECK(outcome("x[N, K], s[K]", "x * s, " + trees,
                "x, " + trees + ", _, _, _, _, s; scores=C, columns=D, aggregate=\"max\"") != Outcome::kProved);
  CHECK(outcome("x[N, K]", "x, " + trees, "x, t, b, r, v, g, w" + rest) != Outcome::kProved);
  CHECK(outcome("x[N, M], i[K]: int64", "Gather(x, i; axis=1), " + trees, "x, " + trees + ", i" + rest) == Outcome::kProved);
  CHECK(outcome("x[N, M], i[K]: int64, j[K]: int64", "Gather(Gather(x, i; axis=1), j; axis=1), " + trees,
                "x, " + trees + ", i" + rest) != Outcome::kProved);
}

TEST_CASE("positions that are read off tensors are the same where the elements are", "[verify]") {
  CHECK(verdict_of(
            "rule r: \"\" x[N, M], i[K]: int64, j[L]: int64 Gather(Gather(x, i; axis=1), j; axis=1) => Gather(x, Gather(i, "
            "j; axis=0); axis=1)")
            .outcome == Outcome::kProved);
  CHECK(verdict_of(
            "rule r: \"\" x[N, M], i[K]: int64, j[K]: int64 Gather(Gather(x, i; axis=1), j; axis=1) => Gather(x, Gather(j, "
            "i; axis=0); axis=1)")
            .outcome != Outcome::kProved);
  CHECK(
      verdict_of("rule r: \"\" x[N, M], i[K]: int64, j[L]: int64 Concat(Gather(x, i; axis=1), Gather(x, j; axis=1); axis=1) => "
                 "Gather(x, Concat(i, j; axis=0); axis=1)")
          .outcome == Outcome::kProved);
  CHECK(
      verdict_of("rule r: \"\" x[N, M], i[K]: int64, j[K]: int64 Concat(Gather(x, i; axis=1), Gather(x, j; axis=1); axis=1) => "
                 "Gather(x, Concat(j, i; axis=0); axis=1)")
          .outcome != Outcome::kProved);
}

// 200 + 100 is 44.
TEST_CASE("sums of unsigned numbers wrap around", "[verify]") {
  CHECK(
      verdict_of("rule r: \"\" x[S...]: uint8, y[S...]: uint8 Less(x + y, y) => Fill(; value=0, shape=S, type=bool)").outcome !=
      Outcome::kProved);
  CHECK(verdict_of("rule r: \"\" x[S...]: uint8, y[S...]: uint8 Less(x + y, Fill(; value=0, shape=[], type=uint8)) => Fill(; "
                   "value=0, shape=S, type=bool)")
            .outcome == Outcome::kProved);
}

TEST_CASE("what quantizing makes of quantized elements is known by their range", "[verify]") {
  const auto outcome = [](const std::string& type, const std::string& zero, const std::string& other) {
    const auto number = [](const std::string& value, const std::string& of) {
      return "Fill(; value=" + value + ", shape=[], type=" + of + ")";
    };
    return verdict_of("rule r: \"\" x[S...]: " + type + " QuantizeLinear(DequantizeLinear(x, " + number("0.25", "float") +
                      ", " + number(zero, type) + "), " + number("0.25", "float") + ", " + number(other, type) + ") => x")
        .outcome;
  };
  CHECK(outcome("uint8", "7", "7") == Outcome::kProved);
  CHECK(outcome("int8", "-3", "-3") == Outcome::kProved);
  CHECK(outcome("uint8", "7", "6") != Outcome::kProved);
  CHECK(outcome("int8", "-3", "-2") != Outcome::kProved);
  // A sum that may have wrapped around is in no range.
  CHECK(verdict_of("rule r: \"\" x[S...]: uint8 Max(x + Fill(; value=1, shape=[], type=uint8), Fill(; value=1, shape=[], "
                   "type=uint8)) => x + Fill(; value=1, shape=[], type=uint8)")
            .outcome != Outcome::kProved);
}

TEST_CASE("a rule over all ranks, with broadcasting", "[verify]") {
  const Verdict v = verdict_of("rule r: \"\" x, y Relu(Neg(x)) + y => y + Relu(x * -1)");
  CHECK(v.outcome == Outcome::kProved);
  CHECK(v.cases > 30);
}

TEST_CASE("conditions that contradict each other prove nothing", "[verify]") {
  for (const char* conditions : {"N < 0", "N == 2, N mod 2 == 1", "N < M, M < N", "M == 2 * N, M mod 2 == 1"}) {
    INFO(conditions);
    // The rule is true, and still is with the last operator on both sides: only the conditions are wrong.
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
    // The returned rule states them, so it is proved as it is.
    CHECK(verify(v.rule).conditions.empty());
    CHECK(v.rule.conditions.size() == c.conditions.size());
  }
}

TEST_CASE("conditions under which a refuted rule holds are suggested", "[verify]") {
  const std::pair<const char*, const char*> cases[] = {
      {"x, y Softmax(Concat(x, y; axis=a); axis=b) => Concat(Softmax(x; axis=b), Softmax(y; axis=b); axis=a)", "a != b"},
      {"x[M, K], y[N, K] ReduceMean(Concat(x, y; axis=0); axes=[0]) => (ReduceMean(x; axes=[0]) + ReduceMean(y; axes=[0])) * "
       "0.5",
       "M == N"},
      {"x[N, C, X], w[K, C, R] Conv(x, w; strides=[s]) => Conv(x, w)", "s == 1"},
      {"x[N, C, X], w[K, C, R] Conv(x, w; pads_begin=[(R - 1) div 2], pads_end=[R div 2]) => Conv(x, Pad(w; pads_begin=[0, 0, "
       "0], "
       "pads_end=[0, 0, 1]); pads_begin=[R div 2], pads_end=[(R + 1) div 2])",
       "(R mod 2) == 1"},
  };
  for (const auto& [text, condition] : cases) {
    const Verdict v = verdict_of(std::string("rule r: \"\" ") + text);
    INFO(text << ": " << v.explanation);
    CHECK(v.outcome == Outcome::kRefuted);
    CHECK(v.suggested_conditions == std::vector<std::string>{condition});
    VerifyOptions options;
    options.infer_conditions = true;
    const Verdict with = verify(parse_algebra(std::string("rule r: \"\" ") + text, "test").at(0), options);
    CHECK(with.outcome == Outcome::kProved);
    CHECK(with.conditions == v.suggested_conditions);
  }
  // A condition under which it holds, but not among the candidates.
  CHECK(verdict_of("rule r: \"\" x[N] Relu(x) => x").suggested_conditions.empty());
}

TEST_CASE("sums over triangles of what is folded are answered", "[verify]") {
  const std::string triangle = "Trilu(Reshape(x; shape=[M, D]); upper=", sum = "; axes=[0, 1], keepdims=";
  CHECK(verdict_of("rule r: \"\" x[M * D] ReduceSum(" + triangle + "false)" + sum + "true) => ReduceSum(" + triangle + "true)" +
                   sum + "true)")
            .outcome == Outcome::kRefuted);
  CHECK(verdict_of("rule r: \"\" x[M * D] ReduceSum(Reshape(" + triangle +
                   "false); shape=[M * D]); axes=[0], keepdims=false) => ReduceSum(" + triangle + "false)" + sum + "false)")
            .outcome == Outcome::kProved);
  CHECK(verdict_of("rule r: \"\" x[12] ReduceSum(Reshape(Trilu(Reshape(x; shape=[3, 4]); upper=false); shape=[2, 6])" + sum +
                   "false) => ReduceSum(Trilu(Reshape(x; shape=[3, 4]); upper=false)" + sum + "false)")
            .outcome == Outcome::kProved);
}

TEST_CASE("a solver without a budget leaves a rule undecided", "[verify][long]") {
  const auto rules = read_rules(std::filesystem::path("verifier/testdata/true.rules"));
  int undecided = 0;
  for (std::size_t i = 0; i < rules.size(); i += 30) {
    VerifyOptions options;
    options.solver.linear_steps = options.solver.nonlinear_steps = 1;
    options.instances = 5;
    options.suggest_conditions = false;
    const Verdict v = verify(rules[i], options);
    INFO(rules[i].name << ": " << v.explanation);
    CHECK((v.outcome == Outcome::kProved || v.outcome == Outcome::kUndecided));
    if (v.outcome == Outcome::kProved) continue;
    ++undecided;
    CHECK(!v.explanation.empty());
  }
  CHECK(undecided > 0);
}

TEST_CASE("a proof ends when the time is over", "[verify]") {
  const Rule rule =
      parse_algebra("rule r: \"\" a[M,K], b[K,N], c[K,N] MatMul(a, b) + MatMul(a, c) => MatMul(a, b + c)", "test").at(0);
  VerifyOptions options;
  int questions = 0;
  options.solver.ended = [&] { return ++questions, false; };
  CHECK(verify(rule, options).outcome == Outcome::kProved);
  const int all = questions - 2;  // it is asked twice after the proof
  for (const int allowed : {0, all / 2, all - 1}) {
    int asked = 0;
    options.solver.ended = [&] { return ++asked > allowed; };
    const Verdict v = verify(rule, options);
    INFO("after " << allowed << " of " << all << ": " << v.explanation);
    CHECK(v.outcome == Outcome::kUndecided);
  }
  // Nor is a wrong one refuted then.
  options.solver.ended = [] { return true; };
  CHECK(verify(parse_algebra("rule r: \"\" x[N] x + x => x * 3", "test").at(0), options).outcome == Outcome::kUndecided);
}

TEST_CASE("a rule that is wrong with the conditions that it needs is refuted", "[verify]") {
  const Verdict v = verdict_of("rule r: \"\" x[M, N], y[N, K], z[L, M] MatMul(z, MatMul(x, y)) => MatMul(MatMul(x, z), y)");
  CHECK(v.outcome == Outcome::kRefuted);
  // Without broadcasting, no condition makes the shapes agree here.
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
