#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "operators/testing.h"

namespace rewright::testing {
namespace {

using Matrix = std::vector<double>;

Matrix without(const Matrix& a, std::size_t n, std::size_t row, std::size_t column) {
  Matrix rest;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j)
      if (i != row && j != column) rest.push_back(a[i * n + j]);
  return rest;
}

// By Laplace's expansion, without division.
double determinant(const Matrix& a, std::size_t n) {
  if (n == 0) return 1;
  double sum = 0;
  for (std::size_t j = 0; j < n; ++j) sum += (j % 2 == 0 ? 1 : -1) * a[j] * determinant(without(a, n, 0, j), n - 1);
  return sum;
}

// A product of n * rank and rank * n elements.
Matrix of_rank(std::size_t n, std::size_t rank, std::mt19937& random) {
  std::uniform_real_distribution<double> uniform(-1, 1);
  Matrix left(n * rank), right(rank * n), a(n * n);
  for (Matrix* m : {&left, &right})
    for (double& v : *m) v = uniform(random);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t k = 0; k < rank; ++k) a[i * n + j] += left[i * rank + k] * right[k * n + j];
  return a;
}

TEST_CASE("determinants and cofactors of matrices of every rank") {
  std::mt19937 random(1);
  for (std::size_t n = 1; n <= 6; ++n)
    for (std::size_t rank = 0; rank <= n; ++rank) {
      INFO("size " << n << ", rank " << rank);
      const Matrix a = of_rank(n, rank, random);
      const auto size = static_cast<std::int64_t>(n);
      CHECK(evaluate("Det", {tensor({size, size}, a)})[0].reals()[0] == Approx(determinant(a, n)).margin(1e-13));
      const std::vector<double> found = evaluate("CofactorMatrix", {tensor({1, size, size}, a)})[0].reals();
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j) {
          const double sign = (i + j) % 2 == 0 ? 1 : -1;
          CHECK(found[i * n + j] == Approx(sign * determinant(without(a, n, i, j), n - 1)).margin(1e-13));
        }
    }
}

TEST_CASE("cofactors of a matrix that is singular but for rounding") {
  constexpr double kSmall = 1e-14;
  const Matrix a{1, 2, 3, 4, 5, 6, 7, 8, 9 + kSmall};
  const std::vector<double> found = evaluate("CofactorMatrix", {tensor({3, 3}, a)})[0].reals();
  const Matrix expected{-3, 6, -3, 6, -12, 6, -3, 6, -3};
  for (std::size_t n = 0; n < 9; ++n) CHECK(found[n] == Approx(expected[n]).epsilon(1e-12));
}

TEST_CASE("determinants of what is no number, of nothing, and of what is not square") {
  CHECK(std::isnan(evaluate("Det", {tensor({2, 2}, {0, NAN, 0, 0})})[0].reals()[0]));
  CHECK(evaluate("Det", {tensor({2, 2}, {49, 1, 49, 1})})[0].reals()[0] == 0);  // singular, though 49 * (1 / 49) is not 1
  CHECK(evaluate("Det", {tensor({2, 2}, {1e-310, 1, 1e-310, 2})})[0].reals()[0] == 1e-310);  // of a pivot without a reciprocal
  CHECK(evaluate("Det", {tensor({2, 0, 0}, {})})[0].reals() == std::vector<double>{1, 1});
  CHECK(evaluate("Det", {tensor({0, 3, 3}, {})})[0].sizes() == Sizes{0});
  CHECK(shape_of("Det", {reals({2, 3})}) == "matrices of shape [2, 3] are not square");
  CHECK(shape_of("Det", {reals({3})}) == "input has rank 1, at least 2 is needed");
  const Index n = Index::symbol("N");
  CHECK(shape_of("Det", {reals({n, 4, 4})}) == "[N]");
}

}  // namespace
}  // namespace rewright::testing
