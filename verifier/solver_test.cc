#include "verifier/solver.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "operators/operator.h"

using namespace rewright;
using namespace rewright::proof;

namespace {

const Index n = Index::symbol("n"), m = Index::symbol("m"), d = Index::symbol("d");

}  // namespace

TEST_CASE("linear questions", "[solver]") {
  Solver solver;
  CHECK(solver.implies({at_least(n, 2), at_least(m, n)}, at_least(m, 1)) == Answer::kProved);
  CHECK(solver.implies({at_least(n, 2)}, at_least(n, 3)) == Answer::kRefuted);
  CHECK(solver.contradictory({at_least(n, 2), below(n, 2)}) == Answer::kProved);
  CHECK(solver.contradictory({at_least(n, 2)}) == Answer::kRefuted);
  CHECK(solver.contradictory({zero(n * 2 - 3)}) == Answer::kProved);
}

TEST_CASE("divisions", "[solver]") {
  Solver solver;
  const Guards positive{at_least(n, 1), at_least(d, 1), at_least(m, 0), below(m, d)};
  CHECK(solver.proves(positive, zero(floor_div(m, d))));
  CHECK(solver.proves(positive, below(mod(n, d), d)));
  CHECK(solver.proves(positive, zero(floor_div(n, d) * d + mod(n, d) - n)));
  CHECK(solver.proves(positive, at_least(n, floor_div(n, d))));
  CHECK_FALSE(solver.proves(positive, zero(mod(n, d))));
}

TEST_CASE("a division by what may be 0 contradicts nothing", "[solver]") {
  Solver solver;
  const Guards guards{zero(floor_div(n, d) - m)};
  CHECK(solver.contradictory(guards) != Answer::kProved);
  Guards with_zero = guards;
  with_zero.push_back(zero(d));
  CHECK(solver.contradictory(with_zero) != Answer::kProved);
}

TEST_CASE("products are known to be products where that is needed", "[solver]") {
  Solver solver;
  CHECK(solver.proves({at_least(n, 1), at_least(m, 1)}, at_least(n * m, 1)));
  CHECK_FALSE(solver.proves({at_least(n, 1)}, at_least(n * m, 1)));
}

TEST_CASE("indicators cancel pointwise", "[solver]") {
  Solver solver;
  const Indicator all{1, {at_least(n, 0)}}, low{-1, {at_least(n, 0), below(n, 5)}}, high{-1, {at_least(n, 5)}};
  CHECK(solver.cancel({}, {all, low, high}) == Answer::kProved);
  CHECK(solver.cancel({}, {all, low}) == Answer::kRefuted);
  CHECK(solver.cancel({below(n, 5)}, {all, low}) == Answer::kProved);
  CHECK(solver.cancel({}, {{Rational(1, 3), {}}, {Rational(-1, 3), {}}}) == Answer::kProved);
}

TEST_CASE("covers", "[solver]") {
  Solver solver;
  const Index v = Index::fresh("v");
  const Existence some{{v}, {at_least(v, 0), below(v, n)}}, one{{}, {at_least(n, 1)}};
  CHECK(solver.same_cover({}, {some}, {one}) == Answer::kProved);
  CHECK(solver.same_cover({}, {some}, {}) != Answer::kProved);
  CHECK(solver.same_cover({below(n, 1)}, {some}, {}) == Answer::kProved);
}

TEST_CASE("a budget of nothing decides nothing", "[solver]") {
  Solver solver({.linear_steps = 1, .nonlinear_steps = 1, .seed = 0});
  const Guards positive{at_least(n, 1), at_least(d, 1), at_least(m, 1)};
  CHECK(solver.implies(positive, at_least(n * d * m * (n + d), n * m)) == Answer::kUnknown);
}

TEST_CASE("questions are kept as they were put, and asked once", "[solver]") {
  Solver solver;
  const Guards assumptions{at_least(n, 2), at_least(m, n)};
  solver.implies(assumptions, at_least(m, 1));
  const std::size_t asked = solver.queries().size();
  REQUIRE(asked > 0);
  CHECK(solver.queries()[0].text.find("(assert ") != std::string::npos);
  solver.implies(assumptions, at_least(m, 1));
  CHECK(solver.queries().size() == asked);
}

TEST_CASE("positions that depend on contents are not for the solver", "[solver]") {
  const Inputs in = Inputs::of(std::vector{TensorType{DataType::kInt64, {n}}});
  Solver solver;
  CHECK_THROWS_AS(solver.implies({}, at_least(Index::load(in[0]({m})), 0)), Error);
}

TEST_CASE("models are found where there are some, and none where there are none", "[solver]") {
  Models models;
  CHECK(models.satisfies({at_least(n, 2), zero(m - n * 3), below(n, d)}));
  CHECK(models.refutes({at_least(n, 2)}, below(n, 5)));
  CHECK(models.refutes({at_least(n, 1), at_least(d, 2)}, zero(mod(n, d))));
  CHECK_FALSE(models.satisfies({at_least(n, 2), below(n, 2)}));
  CHECK_FALSE(models.satisfies({zero(n * 2 - 3)}));
  CHECK_FALSE(models.refutes({at_least(n, 1), at_least(d, 1)}, below(mod(n, d), d)));
  // A division by a divisor that is not positive is undefined, so there is no model.
  CHECK_FALSE(models.satisfies({zero(d), zero(floor_div(n, d) - m)}));
}

TEST_CASE("models depend on the assumptions alone", "[solver]") {
  const Guards assumptions{at_least(n, 1), at_least(d, 1), zero(mod(n, d) - 1)};
  Models fresh, used;
  for (int k = 0; k < 20; ++k) used.refutes({at_least(n, k), at_least(m, n)}, zero(m - k));
  for (int k = 0; k < 20; ++k) {
    const Guard goal = below(n, d * k);
    CHECK(fresh.refutes(assumptions, goal) == used.refutes(assumptions, goal));
  }
}

TEST_CASE("fractions", "[rational]") {
  CHECK(Rational(2, -4) == Rational(-1, 2));
  CHECK(Rational(1, 3) + Rational(1, 6) == Rational(1, 2));
  CHECK(Rational::exactly(0.75) == Rational(3, 4));
  CHECK(Rational::exactly(1e-300) == std::nullopt);
  CHECK(common_divisor(Rational(1, 2), Rational(1, 3)) == Rational(1, 6));
  CHECK_THROWS_AS(Rational(INT64_MAX) * Rational(3), Error);
  CHECK_THROWS_AS(Rational(0).reciprocal(), Error);
}
