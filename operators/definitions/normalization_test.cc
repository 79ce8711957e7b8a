#include <catch2/catch.hpp>
#include <cmath>

#include "operators/testing.h"

namespace rewright::testing {
namespace {

struct Moments {
  double mean = 0, variance = 0;
};
Moments moments(const std::vector<double>& x, std::size_t first, std::size_t count) {
  Moments m;
  for (std::size_t i = 0; i < count; ++i) m.mean += x[first + i] / static_cast<double>(count);
  for (std::size_t i = 0; i < count; ++i) m.variance += std::pow(x[first + i] - m.mean, 2) / static_cast<double>(count);
  return m;
}

TEST_CASE("BatchNormalization scales and shifts by channel") {
  std::mt19937 random(4);
  const Tensor x = random_tensor({2, 3, 4}, random), scale = random_tensor({3}, random), b = random_tensor({3}, random);
  const Tensor mean = random_tensor({3}, random), var = tensor({3}, {0.5, 1, 2});
  const auto y = evaluate("BatchNormalization", {x, scale, b, mean, var}, {{"epsilon", Real(0.01)}})[0].reals();
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t c = i / 4 % 3;
    const double normal = (x.reals()[i] - mean.reals()[c]) / std::sqrt(var.reals()[c] + 0.01);
    CHECK(y[i] == Approx(normal * scale.reals()[c] + b.reals()[c]));
  }
}

TEST_CASE("normalizations say what does not fit") {
  const TensorType x = reals({1, 64, 8}), c = reals({64});
  CHECK(shape_of("BatchNormalization", {x, reals({3}), c, c, c}) == "scale has 3 elements, input has 64 channels");
  CHECK(shape_of("BatchNormalization", {reals({64}), c, c, c, c}) == "input has rank 1, must be at least 2");
  CHECK(shape_of("InstanceNormalization", {x, c, reals({3})}) == "b has 3 elements, input has 64 channels");
  CHECK(shape_of("LayerNormalization", {x, reals({7})}) == "scale of shape [7] does not broadcast to [1, 64, 8]");
  CHECK(shape_of("LayerNormalization", {x, reals({8})}, {{"axis", Index(3)}}) == "axis 3 of a tensor of rank 3");
  CHECK(shape_of("LpNormalization", {x}, {{"p", Index(3)}}) == "p is 3, must be 1 or 2");
}

TEST_CASE("LayerNormalization has three outputs") {
  std::mt19937 random(5);
  const Index n = Index::symbol("N");
  const Definition d = define("LayerNormalization", {reals({n, 3, 4}), reals({3, 4})}, {{"axis", Index(-2)}});
  REQUIRE(d.outputs().size() == 3);
  CHECK(to_string(d.outputs()[1].type) == "float[N, 1, 1]");
  CHECK(to_string(d.outputs()[2].type) == "float[N, 1, 1]");

  const Tensor x = random_tensor({2, 3, 4}, random), scale = random_tensor({3, 4}, random), b = random_tensor({4}, random);
  const auto out = evaluate("LayerNormalization", {x, scale, b}, {{"axis", Index(1)}});
  for (std::size_t i = 0; i < 24; ++i) {
    const Moments m = moments(x.reals(), i / 12 * 12, 12);
    const double inverse = 1 / std::sqrt(m.variance + 1e-5f);
    CHECK(out[0].reals()[i] == Approx((x.reals()[i] - m.mean) * inverse * scale.reals()[i % 12] + b.reals()[i % 4]));
    CHECK(out[1].reals()[i / 12] == Approx(m.mean).margin(1e-6));
    CHECK(out[2].reals()[i / 12] == Approx(inverse));
  }
}

TEST_CASE("InstanceNormalization normalizes each channel of each instance") {
  std::mt19937 random(6);
  const Tensor x = random_tensor({2, 3, 5}, random), scale = random_tensor({3}, random), b = random_tensor({3}, random);
  const auto y = evaluate("InstanceNormalization", {x, scale, b})[0].reals();
  for (std::size_t i = 0; i < 30; ++i) {
    const Moments m = moments(x.reals(), i / 5 * 5, 5);
    const std::size_t c = i / 5 % 3;
    CHECK(y[i] == Approx((x.reals()[i] - m.mean) / std::sqrt(m.variance + 1e-5f) * scale.reals()[c] + b.reals()[c]));
  }
}

TEST_CASE("GroupNormalization normalizes each group of channels") {
  std::mt19937 random(11);
  const Tensor x = random_tensor({2, 4, 3}, random), scale = random_tensor({4}, random), b = random_tensor({4}, random);
  const auto y = evaluate("GroupNormalization", {x, scale, b}, {{"num_groups", Index(2)}})[0].reals();
  for (std::size_t i = 0; i < 24; ++i) {
    const Moments m = moments(x.reals(), i / 6 * 6, 6);
    const std::size_t c = i / 3 % 4;
    CHECK(y[i] == Approx((x.reals()[i] - m.mean) / std::sqrt(m.variance + 1e-5f) * scale.reals()[c] + b.reals()[c]));
  }
  CHECK(shape_of("GroupNormalization", {reals({1, 4, 8}), reals({4}), reals({4})}, {{"num_groups", Index(3)}}) ==
        "4 channels cannot be divided into 3 equal groups");
}

TEST_CASE("RMSNormalization divides by the root of the mean square") {
  const auto y =
      evaluate("RMSNormalization", {tensor({1, 2}, {3, 4}), tensor({2}, {1, 2})}, {{"epsilon", Real(0.)}})[0].reals();
  CHECK(y[0] == Approx(3 / std::sqrt(12.5)));
  CHECK(y[1] == Approx(8 / std::sqrt(12.5)));
}

TEST_CASE("LpNormalization gives unit vectors, and 0 for 0") {
  const Tensor x = tensor({3, 2}, {3, 4, 0, 0, -1, 1});
  CHECK(evaluate("LpNormalization", {x})[0].reals()[1] == Approx(0.8));
  CHECK(evaluate("LpNormalization", {x})[0].reals()[2] == 0);
  CHECK(evaluate("LpNormalization", {x}, {{"p", Index(1)}})[0].reals()[4] == Approx(-0.5));
}

TEST_CASE("LRN sums the squares of neighbouring channels") {
  std::mt19937 random(7);
  const Tensor x = random_tensor({2, 6, 2}, random);
  for (const int size : {1, 2, 3, 5}) {
    const auto y =
        evaluate("LRN", {x}, {{"size", Index(size)}, {"alpha", Real(0.3)}, {"beta", Real(0.7)}, {"bias", Real(2.)}})[0].reals();
    for (int n = 0; n < 2; ++n)
      for (int c = 0; c < 6; ++c)
        for (int p = 0; p < 2; ++p) {
          const auto at = [&](int channel) { return static_cast<std::size_t>((n * 6 + channel) * 2 + p); };
          double squares = 0;
          for (int t = std::max(0, c - (size - 1) / 2); t <= std::min(5, c + size / 2); ++t)
            squares += std::pow(x.reals()[at(t)], 2);
          CHECK(y[at(c)] == Approx(x.reals()[at(c)] / std::pow(2 + 0.3 / size * squares, 0.7)));
        }
  }
}

}  // namespace
}  // namespace rewright::testing
