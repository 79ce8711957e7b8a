#include <catch2/catch.hpp>
#include <cmath>

#include "operators/testing.h"

namespace rewright::testing {
namespace {

struct Pool1d {
  std::int64_t size, kernel, stride, dilation, begin, end;
  bool ceil;
  Named named() const {
    return {{"kernel", Indices{kernel}},    {"strides", Indices{stride}}, {"dilations", Indices{dilation}},
            {"pads_begin", Indices{begin}}, {"pads_end", Indices{end}},   {"ceil_mode", ceil}};
  }
};

template <class F>
void for_pools(const F& f) {
  std::mt19937 random(3);
  const auto between = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int round = 0; round < 60; ++round) {
    Pool1d p{0, between(1, 4), between(1, 3), between(1, 2), 0, 0, round % 2 == 1};
    p.begin = between(0, (p.kernel - 1) / 2), p.end = between(0, (p.kernel - 1) / 2);
    p.size = p.dilation * (p.kernel - 1) + 1 + between(0, 5);
    f(p, random_tensor({2, 2, p.size}, random));
  }
}

TEST_CASE("pools take what lies inside of their windows") {
  for_pools([](const Pool1d& p, const Tensor& x) {
    Named with_indices = p.named(), with_pads = p.named();
    with_indices.emplace_back("indices", true);
    with_pads.emplace_back("count_include_pad", true);
    const auto maxima = evaluate("MaxPool", {x}, with_indices);
    const auto means = evaluate("AveragePool", {x}, p.named())[0].reals();
    const auto padded_means = evaluate("AveragePool", {x}, with_pads)[0].reals();
    const auto norms = evaluate("LpPool", {x}, p.named())[0].reals();
    const auto xv = x.reals();
    const std::int64_t length = p.size + p.begin + p.end - p.dilation * (p.kernel - 1) - 1;
    std::int64_t count = p.ceil ? (length + p.stride - 1) / p.stride + 1 : length / p.stride + 1;
    if (p.ceil && (count - 1) * p.stride >= p.size + p.begin) --count;
    REQUIRE(maxima[0].sizes() == Sizes{2, 2, count});
    REQUIRE(maxima[1].type() == DataType::kInt64);
    for (std::int64_t row = 0; row < 4; ++row)
      for (std::int64_t q = 0; q < count; ++q) {
        double best = -INFINITY, sum = 0, squares = 0;
        std::int64_t inside = 0, with_padding = 0, where = -1;
        for (std::int64_t r = 0; r < p.kernel; ++r) {
          const std::int64_t at = q * p.stride + r * p.dilation - p.begin;
          if (at < p.size + p.end) ++with_padding;
          if (at < 0 || at >= p.size) continue;
          const double v = xv[static_cast<std::size_t>(row * p.size + at)];
          if (v > best) where = row * p.size + at;
          best = std::max(best, v), sum += v, squares += v * v;
          ++inside;
        }
        const auto k = static_cast<std::size_t>(row * count + q);
        CHECK(maxima[0].reals()[k] == best);
        CHECK(maxima[1].integers()[k] == where);
        CHECK(means[k] == Approx(sum / static_cast<double>(inside)).margin(1e-12));
        CHECK(padded_means[k] == Approx(sum / static_cast<double>(with_padding)).margin(1e-12));
        CHECK(norms[k] == Approx(std::sqrt(squares)));
      }
  });
}

TEST_CASE("positions of maxima within planes are those in the tensor but for the planes before") {
  for_pools([](const Pool1d& p, const Tensor& x) {
    Named with_indices = p.named();
    with_indices.emplace_back("indices", true);
    const std::vector<std::int64_t> all = evaluate("MaxPool", {x}, with_indices)[1].integers();
    with_indices.emplace_back("storage_order", Index(2));
    const std::vector<std::int64_t> within = evaluate("MaxPool", {x}, with_indices)[1].integers();
    for (std::size_t n = 0; n < all.size(); ++n) CHECK(within[n] == all[n] % p.size);
  });
}

TEST_CASE("global pools") {
  const Tensor x = tensor({1, 2, 2, 2}, {1, 2, 3, 6, -1, -2, -3, -4});
  CHECK(evaluate("GlobalAveragePool", {x})[0].reals() == std::vector<double>{3, -2.5});
  CHECK(evaluate("GlobalMaxPool", {x})[0].reals() == std::vector<double>{6, -1});
  CHECK(evaluate("GlobalLpPool", {x}, {{"p", Index(1)}})[0].reals() == std::vector<double>{12, 10});
}

TEST_CASE("MaxPool of integers, and positions in column-major order") {
  const Tensor x = tensor({1, 1, 2, 3}, {1, 7, 3, 4, 5, 6}, DataType::kInt8);
  const auto y = evaluate("MaxPool", {x}, {{"kernel", Indices{2, 2}}, {"indices", true}, {"storage_order", Index(1)}});
  CHECK(y[0].integers() == std::vector<std::int64_t>{7, 7});
  CHECK(y[1].integers() == std::vector<std::int64_t>{2, 2});
}

TEST_CASE("shapes and messages of pools") {
  const Index n = Index::symbol("N"), h = Index::symbol("H");
  const Named two{{"kernel", Indices{2}}, {"strides", Indices{2}}};
  CHECK(shape_of("MaxPool", {reals({n, 3, 2 * h})}, two) == to_string(Indices{n, 3, h}));
  CHECK(shape_of("GlobalAveragePool", {reals({n, 3, h, 7})}) == "[N, 3, 1, 1]");
  CHECK(shape_of("AveragePool", {reals({1, 3, 5, 5})}, two) == "kernel has 1 entries for 2 axes");
  CHECK(shape_of("AveragePool", {integers({1, 3, 5})}, two) == "input is int64, a real type is needed");
  CHECK(shape_of("MaxPool", {reals({1, 3, 1})}, two) == "window of 2 does not fit into 1 (spatial axis 0, padding included)");
}

}  // namespace
}  // namespace rewright::testing
