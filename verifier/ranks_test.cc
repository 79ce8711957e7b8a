// Proofs for all ranks: what they cover, what they must not, and that higher ranks agree.
#include "verifier/ranks.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "operators/testing/share.h"
#include "rules/io.h"
#include "rules/tester.h"
#include "verifier/proof.h"

using namespace rewright;
using namespace rewright::proof;

namespace {

Rule rule_of(const std::string& text) { return parse_algebra("rule r: \"\" " + text, "test").at(0); }

ProofSearch proof_of(const Rule& rule, std::size_t highest = 5) {
  Solver solver;
  ProofLimits limits;
  limits.maximum_rank = highest;
  return search_proof(rule, limits, solver);
}

}  // namespace

TEST_CASE("rules whose axes are alike hold for all ranks", "[ranks]") {
  for (const char* text : {
           "x Neg(Neg(x)) => x", "x, y, z x * z + y * z => (x + y) * z",
           "x: any Transpose(Transpose(x; perm=p); perm=q) => Transpose(x; perm=compose(p, q)) where permutation(p), "
           "permutation(q)",
           "x: any, y: any, z: any Concat(x, Concat(y, z; axis=a); axis=a) => Concat(x, y, z; axis=a)",
           "x ReduceSum(ReduceSum(x; axes=[a]); axes=[b]) => ReduceSum(x; axes=[a, b]) where a != b",
           "a[..., M, K], b[..., K, L], c[..., L, N] MatMul(a, MatMul(b, c)) => MatMul(MatMul(a, b), c)",
           "x: any Slice(Slice(x; begin=b, length=l, step=s); begin=c, length=m, step=t) => Slice(x; begin=add(b, c), "
           "length=m) "
           "where every s == 1, every t == 1",
           "x, y Softmax(Concat(x, y; axis=a); axis=b) => Concat(Softmax(x; axis=b), Softmax(y; axis=b); axis=a) where a != b",
           "x[N, C, H, W] Relu(Relu(x)) => Relu(x)",  // of one rank
       }) {
    const ProofSearch proof = proof_of(rule_of(text));
    INFO(text << ": " << proof.open_question << proof.bounded_by);
    CHECK(proof.found);
    CHECK(proof.any_rank);
  }
}

TEST_CASE("where axes are summed over, or a list is as long as it likes, ranks stay bounded", "[ranks]") {
  for (const char* text : {
           "x[X...], y[X...] ReduceSum(x; axes=a) + ReduceSum(y; axes=a) => ReduceSum(x + y; axes=a)",
           "x: any Expand(Expand(x; shape=s); shape=s) => Expand(x; shape=s)",
           "c[] Neg(Expand(c; shape=s)) => Expand(Neg(c); shape=s) where length(s) >= 5",
           "x[N, C, X...], w[K, C, R...], v[K, C, R...] Conv(x, w) + Conv(x, v) => Conv(x, w + v)",
       }) {
    const ProofSearch proof = proof_of(rule_of(text));
    INFO(text << ": " << proof.open_question);
    CHECK(proof.found);
    CHECK(!proof.any_rank);
    CHECK(!proof.bounded_by.empty());
  }
}

// Each is true of the ranks that are enumerated, and wrong of a higher one.
TEST_CASE("rules that tell high ranks apart are not taken for rules of all ranks", "[ranks]") {
  for (const char* text : {
           "x, y let n = rank(x) Concat(x, y; axis=0) => Concat(x, y; axis=n div 6)",
           "x, y let n = rank(x) Concat(x, y; axis=0) => Concat(x, y; axis=max(n, 5) - 5)",
           "x Softmax(Softmax(x; axis=a); axis=b) => Softmax(Softmax(x; axis=b); axis=a) where a + b >= 8",
           "x Softmax(Softmax(x; axis=a); axis=b) => Softmax(Softmax(x; axis=b); axis=a) where a >= 4, b >= 4",
           "x let n = rank(x) Transpose(x; perm=p) => x where permutation(p), at(p, 0) == 0, at(p, 1) == 1, at(p, 2) == 2, "
           "at(p, n - 1) == n - 1, at(p, n - 2) == n - 2",
           "x let n = rank(x) let q = slice(p, 2, n) Transpose(x; perm=p) => x where permutation(p), at(p, 0) == 0, at(p, 1) "
           "== 1, "
           "at(q, 0) == 2, at(q, 1) == 3",
           "x[X...] Transpose(x; perm=p) => x where permutation(p), slice(p, 0, 4) == slice(identity(rank(x)), 0, 4)",
       }) {
    const ProofSearch proof = proof_of(rule_of(text));
    INFO(text << ": " << proof.open_question);
    CHECK(!(proof.found && proof.any_rank));
  }
}

TEST_CASE("a rule whose lowest rank has too many cases is not proved", "[ranks]") {
  ProofLimits limits;
  limits.maximum_cases = 3;
  Solver solver;
  const ProofSearch proof =
      search_proof(rule_of("c[] Transpose(Expand(c; shape=s); perm=p) => Expand(c; shape=compose(s, p)) where permutation(p)"),
                   limits, solver);
  CHECK(!proof.found);
  CHECK(proof.open_question == "there are more than 3 cases of the lowest rank");
}

// Conclusions from ranks up to 3 are proved of ranks 4 and 5 by enumeration.
TEST_CASE("higher ranks are as the argument says", "[ranks][long]") {
  std::size_t concluded = 0;
  for (const char* file :
       {"rules/xla/arithmetic.rules", "rules/xla/logic.rules", "rules/xla/layout.rules", "rules/xla/others.rules"})
    for (const Rule& rule : testing::share(read_rules(std::filesystem::path(file)))) {
      if (!proof_of(rule, 3).any_rank) continue;
      ++concluded;
      const ProofSearch proof = proof_of(rule, 5);
      INFO(rule.name << ": " << proof.open_question);
      CHECK(proof.found);
      CHECK(proof.any_rank);
    }
  CHECK(concluded > testing::instances(40));
}

TEST_CASE("a rule without inputs is tried, too", "[ranks]") {
  const Rule rule = rule_of("Slice(Range(; count=n); begin=[i], length=[1]) => Range(; start=i, delta=0, count=2)");
  CHECK_NOTHROW(test_rule(rule, 20, 1));
}
