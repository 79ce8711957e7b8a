#include <catch2/catch.hpp>

#include "operators/testing.h"

namespace rewright::testing {
namespace {

TEST_CASE("MatMul's shapes") {
  const Index n = Index::symbol("N");
  CHECK(shape_of("MatMul", {reals({2, 3}), reals({3, 4})}) == "[2, 4]");
  CHECK(shape_of("MatMul", {reals({3}), reals({3})}) == "[]");
  CHECK(shape_of("MatMul", {reals({3}), reals({5, 3, 4})}) == "[5, 4]");
  CHECK(shape_of("MatMul", {reals({5, 2, 3}), reals({3})}) == "[5, 2]");
  CHECK(shape_of("MatMul", {reals({n, 1, 2, 3}), reals({7, 3, 4})}) == "[N, 7, 2, 4]");
  CHECK(shape_of("MatMul", {reals({2, 3}), reals({4, 5})}) == "a has 3 columns ([2, 3]), b has 4 rows ([4, 5])");
  CHECK(shape_of("MatMul", {reals({}), reals({4, 5})}) == "an operand has rank 0, must be at least 1");
}

TEST_CASE("MatMul broadcasts its leading axes") {
  std::mt19937 random(2);
  const Tensor a = random_tensor({2, 1, 3, 4}, random), b = random_tensor({5, 4, 2}, random);
  const Tensor y = evaluate("MatMul", {a, b})[0];
  REQUIRE(y.sizes() == Sizes{2, 5, 3, 2});
  const auto av = a.reals(), bv = b.reals(), yv = y.reals();
  for (std::size_t p = 0; p < 2; ++p)
    for (std::size_t q = 0; q < 5; ++q)
      for (std::size_t m = 0; m < 3; ++m)
        for (std::size_t n = 0; n < 2; ++n) {
          double sum = 0;
          for (std::size_t k = 0; k < 4; ++k) sum += av[(p * 3 + m) * 4 + k] * bv[(q * 4 + k) * 2 + n];
          CHECK(yv[((p * 5 + q) * 3 + m) * 2 + n] == Approx(sum));
        }
}

TEST_CASE("MatMul of vectors") {
  const Tensor v = tensor({2}, {1, 2}), m = tensor({2, 2}, {1, 2, 3, 4});
  CHECK(evaluate("MatMul", {v, v})[0].reals() == std::vector<double>{5});
  CHECK(evaluate("MatMul", {v, m})[0].reals() == std::vector<double>{7, 10});
  CHECK(evaluate("MatMul", {m, v})[0].reals() == std::vector<double>{5, 11});
}

TEST_CASE("Gemm transposes, scales and adds") {
  std::mt19937 random(3);
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true})
      for (const bool with_c : {false, true}) {
        const Tensor a = random_tensor(transpose_a ? Sizes{4, 3} : Sizes{3, 4}, random);
        const Tensor b = random_tensor(transpose_b ? Sizes{2, 4} : Sizes{4, 2}, random);
        const Tensor c = with_c ? random_tensor({3, 1}, random) : Tensor();
        const auto y = evaluate("Gemm", {a, b, c},
                                {{"alpha", Real(0.5)}, {"beta", Real(2.)}, {"transA", transpose_a}, {"transB", transpose_b}})[0]
                           .reals();
        const auto av = a.reals(), bv = b.reals(), cv = with_c ? c.reals() : std::vector<double>(3, 0.0);
        for (std::size_t m = 0; m < 3; ++m)
          for (std::size_t n = 0; n < 2; ++n) {
            double sum = 0;
            for (std::size_t k = 0; k < 4; ++k)
              sum += av[transpose_a ? k * 3 + m : m * 4 + k] * bv[transpose_b ? n * 4 + k : k * 2 + n];
            CHECK(y[m * 2 + n] == Approx(0.5 * sum + 2 * cv[m]));
          }
      }
}

TEST_CASE("Gemm says what does not fit") {
  CHECK(shape_of("Gemm", {reals({2, 3}), reals({4, 3})}) == "a has 3 columns, b has 4 rows");
  CHECK(shape_of("Gemm", {reals({2, 3}), reals({4, 3})}, {{"transB", true}}) == "[2, 4]");
  CHECK(shape_of("Gemm", {reals({2, 3}), reals({3, 4}), reals({2})}) == "c of shape [2] does not broadcast to [2, 4]");
  CHECK(shape_of("Gemm", {reals({2, 3, 1}), reals({3, 4})}) == "a has 3 axes, must have 2");
  CHECK(shape_of("Gemm", {integers({2, 3}), integers({3, 4})}, {{"alpha", Real(0.5)}}) ==
        "alpha and beta must be integers for int64 elements");
}

TEST_CASE("Einsum broadcasts axes of size 1 that have a letter") {
  std::mt19937 random(4);
  const Tensor wide = random_tensor({3, 4}, random);
  for (const Sizes& sizes : {Sizes{1, 5}, Sizes{4, 5}, Sizes{4, 1}, Sizes{1, 1}}) {
    const Tensor y = random_tensor(sizes, random);
    const Tensor whole = evaluate("Expand", {y}, {{"shape", Indices{4, 5}}})[0];
    const Tensor product = evaluate("Einsum", {wide, y}, {{"equation", std::string("ij,jk->ik")}})[0];
    CHECK(product.sizes() == Sizes{3, sizes[1]});
    const Tensor expected = evaluate("MatMul", {wide, whole})[0];
    for (std::int64_t i = 0; i < 3; ++i)
      for (std::int64_t k = 0; k < sizes[1]; ++k)
        CHECK(product.reals()[static_cast<std::size_t>(i * sizes[1] + k)] ==
              Approx(expected.reals()[static_cast<std::size_t>(i * 5 + k)]));
  }
  CHECK_THROWS_WITH(evaluate("Einsum", {wide, wide}, {{"equation", std::string("ij,jk->ik")}}),
                    Catch::Contains("axes 'j' have different sizes"));
}

TEST_CASE("Einsum sums over an ellipsis that its result does not have") {
  std::mt19937 random(5);
  const Tensor x = random_tensor({2, 3, 4}, random), y = random_tensor({3, 1}, random);
  const std::vector<double> a = x.reals(), b = y.reals();
  const Tensor sums = evaluate("Einsum", {x, y}, {{"equation", std::string("i...,...->i")}})[0];
  REQUIRE(sums.sizes() == Sizes{2});
  const Tensor all = evaluate("Einsum", {x}, {{"equation", std::string("...->")}})[0];
  REQUIRE(all.sizes().empty());
  double total = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    double expected = 0;
    for (std::size_t j = 0; j < 12; ++j) expected += a[12 * i + j] * b[j / 4], total += a[12 * i + j];
    CHECK(sums.reals()[i] == Approx(expected));
  }
  CHECK(all.reals()[0] == Approx(total));
}

}  // namespace
}  // namespace rewright::testing
