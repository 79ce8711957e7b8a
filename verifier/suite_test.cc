// The rules that the prover must prove, whatever the seed and the solver.
#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "operators/testing/share.h"
#include "rules/io.h"
#include "rules/tester.h"
#include "verifier/proof.h"

using namespace rewright;
using namespace rewright::proof;

namespace {

constexpr const char* kSuites[] = {"axioms", "substitutions", "laws", "true"};

std::vector<Rule> suite(const std::string& name) {
  return read_rules(std::filesystem::path("verifier/testdata") / (name + ".rules"));
}

void prove_all(const std::string& name) {
  for (const Rule& rule : testing::share(suite(name))) {
    Solver solver;
    const ProofSearch proof = search_proof(rule, {}, solver);
    INFO(rule.name << ": " << proof.open_question);
    CHECK(proof.found);
    CHECK(proof.all_ranks);
  }
}

// The answer of another solver (a program that reads SMT-LIB).
Answer ask(const std::string& program, const Query& query) {
  const std::filesystem::path file = std::filesystem::temp_directory_path() / "rewright_question.smt2";
  std::ofstream(file) << query.text << "(check-sat)\n";
  FILE* pipe = popen((program + " " + file.string()).c_str(), "r");
  REQUIRE(pipe);
  std::array<char, 64> line{};
  const bool answered = std::fgets(line.data(), line.size(), pipe) != nullptr;
  pclose(pipe);
  std::filesystem::remove(file);
  const std::string text = line.data();
  return !answered           ? Answer::kError
         : text == "unsat\n" ? Answer::kProved
         : text == "sat\n"   ? Answer::kRefuted
                             : Answer::kUnknown;
}

}  // namespace

TEST_CASE("the axioms of TASO's verifier are proved", "[suite]") { prove_all("axioms"); }
TEST_CASE("what generators of substitutions emit is proved", "[suite][long]") { prove_all("substitutions"); }
TEST_CASE("what follows from laws of functions is proved", "[suite]") { prove_all("laws"); }

// Both sides are equal except at the boundary, where the target adds a correction as part of the equation.
TEST_CASE("partial equivalences with their corrections are proved, and with others not", "[suite][long]") {
  std::ifstream file("rules/optional/spatial.rules");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::vector<Rule> rules = parse_algebra(text, "spatial.rules");
  REQUIRE(rules.size() == 6);
  for (const Rule& rule : testing::share(rules)) {
    Solver solver;
    const ProofSearch proof = search_proof(rule, {}, solver);
    INFO(rule.name << ": " << proof.open_question);
    CHECK(proof.found);
    const RuleTest test = test_rule(rule, 20, 1);
    CHECK(test.outcome == TestOutcome::kAgreed);
  }
  const std::pair<const char*, const char*> slips[] = {
      {"perm=[3, 5, 0, 1, 2, 4]", "perm=[5, 3, 0, 1, 2, 4]"},
      {"begin=[0, 0, A - 2, 0]", "begin=[0, 0, A - 1, 0]"},
      {"begin=[0, 0, 1, 0]", "begin=[0, 0, 0, 0]"},
      {"begin=[0, 0, H - 2, 0]", "begin=[0, 0, 0, 0]"},
      {"Slice(y; begin=[0, 0, H + 1, 0]", "Slice(y; begin=[0, 0, H, 0]"},
      {"Concat(top, last; axis=2), Concat(first, bottom; axis=2)",
       "Slice(y; length=[N, K, H, W + p + q - S + 1]), Concat(first, bottom; axis=2)"},
  };
  for (const auto& [from, to] : slips) {
    const std::size_t at = text.find(from);
    INFO(from << " -> " << to);
    REQUIRE(at != std::string::npos);
    std::size_t proved = 0;
    for (const Rule& rule : parse_algebra(std::string(text).replace(at, std::strlen(from), to), "slip")) {
      Solver solver;
      proved += search_proof(rule, {}, solver).found;
    }
    CHECK(proved == 4);  // the wrong rule is not proved, with or without a bias
  }
}

TEST_CASE("laws go no further than they say", "[suite]") {
  for (const char* text : {
           "x[M, N], c[M, 1] Softmax(x + c; axis=0) => Softmax(x; axis=0)",
           "x[M, N], c[M, N] Softmax(x + c; axis=1) => Softmax(x; axis=1)",
           "x[N] Cos(-x) => -Cos(x)",
           "x[N] Tanh(-x) => Tanh(x)",
           "x[N] Sigmoid(-x) => -Sigmoid(x)",
           "x[N] Exp(Log(x)) => x",
           "x[N] Sqrt(x) / Sqrt(x) => Fill(; value=1, shape=[N], type=T)",
           "x[N] Sigmoid(x) / Sigmoid(x) => Fill(; value=1, shape=[N], type=T)",
           "x[N] Exp(x * 0.5) => Exp(x)",
           "x[M, N] Abs(ReduceMax(x; axes=[1])) => ReduceMax(Abs(x); axes=[1])",
           "x[M, N] Cos(ReduceMax(x; axes=[1])) => ReduceMax(Cos(x); axes=[1])",
           "x[M, N] Sqrt(ReduceMax(x; axes=[1])) => ReduceMax(Sqrt(x); axes=[1])",
           "x[M, N] ReduceMax(x * -2; axes=[1]) => ReduceMax(x; axes=[1]) * -2",
           "x[M, N], c[N] ReduceMax(x + c; axes=[1]) => ReduceMax(x; axes=[1]) + c",
           "x[N] Abs(x * -2) => Abs(x) * -2",
           "x[N] Log(Exp(x) + Exp(x)) => x + x",
       }) {
    Solver solver;
    INFO(text);
    CHECK_FALSE(search_proof(parse_algebra("rule r: \"\" " + std::string(text), "test").at(0), {}, solver).found);
  }
}

TEST_CASE("verdicts are those of every seed", "[.seeds]") {
  for (const char* name : kSuites)
    for (const Rule& rule : suite(name))
      for (unsigned seed = 0; seed < 20; ++seed) {
        Solver solver({.seed = seed});
        INFO(rule.name << ", seed " << seed);
        CHECK(search_proof(rule, {}, solver).found);
      }
}

// SOLVER names a program, such as another version of Z3.
TEST_CASE("what was proved another solver proves, too", "[.another]") {
  const char* program = std::getenv("SOLVER");
  REQUIRE(program);
  for (const char* name : kSuites)
    for (const Rule& rule : suite(name)) {
      Solver solver;
      search_proof(rule, {}, solver);
      for (const Query& query : solver.queries())
        if (query.answer == Answer::kProved) {
          INFO(rule.name << "\n" << query.text);
          CHECK(ask(program, query) == Answer::kProved);
        }
    }
}
