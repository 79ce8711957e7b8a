#include "verifier/cases.h"

#include <catch2/catch.hpp>

#include "rules/io.h"
#include "verifier/proof.h"

using namespace rewright;
using namespace rewright::proof;

namespace {

ProofSearch proof_of(const std::string& text) {
  Solver solver;
  return search_proof(parse_algebra(text, "test").at(0), {}, solver);
}

std::vector<std::string> cases_of(const std::string& text, std::size_t rank) {
  const Rule rule = parse_algebra(text, "test").at(0);
  Solver solver;
  std::vector<std::string> found;
  CaseEnumerator(rule, solver).for_each(rank, [&](const SymbolicCase& c) {
    found.push_back(c.to_string());
    return true;
  });
  return found;
}

}  // namespace

// Each holds for all sizes except 1, which the operator's definition treats specially.
TEST_CASE("a size that a definition compares with 1 may be 1", "[cases]") {
  CHECK_FALSE(proof_of("rule r: \"\" x[A, 1, B] Squeeze(x) => Reshape(x; shape=[A, B])").found);
  CHECK_FALSE(proof_of("rule r: \"\" x[A, 1, B] Squeeze(x) => Squeeze(x; axes=[1])").found);
  CHECK_FALSE(proof_of("rule r: \"\" x[A] Identity(x) => Squeeze(x)").found);
  CHECK(proof_of("rule r: \"\" x[A, 1, B] Squeeze(x) => Reshape(x; shape=[A, B]) where A >= 2, B >= 2").found);
  CHECK(proof_of("rule r: \"\" x[A, 1, B] Squeeze(x; axes=[1]) => Reshape(x; shape=[A, B])").found);
}

TEST_CASE("cases of their own are those where a definition says something else", "[cases]") {
  CHECK(cases_of("rule r: \"\" x[A, 1, B] Squeeze(x) => Squeeze(x)", 3).size() == 4);
  CHECK(cases_of("rule r: \"\" x[A, 1, B] Squeeze(x; axes=[1]) => Squeeze(x; axes=[1])", 3).size() == 1);
  CHECK(cases_of("rule r: \"\" x[A], y[B] x + y => y + x", 1).size() == 3);
}

TEST_CASE("the first place of a size in a list is not known where an earlier one may be equal", "[cases]") {
  CHECK_FALSE(proof_of("rule r: \"\" x[A, B] let i = position([B, A], A)"
                       " ReduceSum(x; axes=[1], keepdims=false) => ReduceSum(x; axes=[i], keepdims=false)")
                  .found);
}

TEST_CASE("a reflection of one element is that element", "[cases]") {
  const std::string pad = "Pad(x; pads_begin=[2], pads_end=[2], mode=\"reflect\")";
  CHECK_FALSE(proof_of("rule r: \"\" x[N] " + pad + " => Concat(Slice(x; begin=[1], length=[2]), x, x; axis=0)").found);
  CHECK(proof_of("rule r: \"\" x[1] " + pad + " => Expand(x; shape=[5])").found);
}
