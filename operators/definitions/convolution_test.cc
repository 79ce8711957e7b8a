#include <catch2/catch.hpp>

#include "operators/testing.h"

namespace rewright::testing {
namespace {

struct Axis {  // one spatial axis of an instance
  std::int64_t size, kernel, stride, dilation, begin, end;
  std::int64_t out() const { return (size + begin + end - dilation * (kernel - 1) - 1) / stride + 1; }
};

struct Instance {
  std::int64_t batch, group, depth, channels;  // depth and channels: of one group
  std::vector<Axis> axes;
  Sizes x{}, w{}, y{};
  Named named{};
};

std::int64_t between(std::mt19937& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

Instance random_instance(std::mt19937& random, std::size_t rank) {
  Instance n{between(random, 1, 2), between(random, 1, 3), between(random, 1, 2), between(random, 1, 2), {}};
  Indices strides, dilations, begin, end;
  n.x = {n.batch, n.group * n.depth}, n.w = {n.group * n.channels, n.depth}, n.y = {n.batch, n.group * n.channels};
  for (std::size_t a = 0; a < rank; ++a) {
    Axis axis{
        0, between(random, 1, 3), between(random, 1, 3), between(random, 1, 2), between(random, 0, 2), between(random, 0, 2)};
    axis.size = axis.dilation * (axis.kernel - 1) + 1 + between(random, 0, 4);
    n.axes.push_back(axis);
    strides.push_back(axis.stride), dilations.push_back(axis.dilation);
    begin.push_back(axis.begin), end.push_back(axis.end);
    n.x.push_back(axis.size), n.w.push_back(axis.kernel), n.y.push_back(axis.out());
  }
  n.named = {
      {"strides", strides}, {"dilations", dilations}, {"pads_begin", begin}, {"pads_end", end}, {"group", Index(n.group)}};
  return n;
}

// Calls f with every position of a tensor of these sizes.
template <class F>
void for_positions(const Sizes& sizes, const F& f) {
  Sizes at(sizes.size(), 0);
  for (std::int64_t k = element_count(sizes); k-- > 0;) {
    f(at);
    for (std::size_t a = sizes.size(); a-- > 0 && ++at[a] == sizes[a];) at[a] = 0;
  }
}

std::size_t flat(const Sizes& sizes, const Sizes& at) {
  std::int64_t number = 0;
  for (std::size_t a = 0; a < sizes.size(); ++a) number = number * sizes[a] + at[a];
  return static_cast<std::size_t>(number);
}

TEST_CASE("Conv is the sum that its formula says") {
  std::mt19937 random(1);
  for (int round = 0; round < 30; ++round) {
    const Instance n = random_instance(random, 1 + static_cast<std::size_t>(round) % 3);
    const Tensor x = random_tensor(n.x, random), w = random_tensor(n.w, random), b = random_tensor({n.w[0]}, random);
    const auto y = evaluate("Conv", {x, w, b}, n.named)[0];
    REQUIRE(y.sizes() == n.y);
    const auto xv = x.reals(), wv = w.reals(), bv = b.reals(), yv = y.reals();
    for_positions(n.y, [&](const Sizes& at) {
      double expected = bv[static_cast<std::size_t>(at[1])];
      Sizes window(n.w.begin() + 1, n.w.end());
      for_positions(window, [&](const Sizes& tap) {  // channel, r...
        Sizes from{at[0], at[1] / n.channels * n.depth + tap[0]}, weight{at[1]};
        weight.insert(weight.end(), tap.begin(), tap.end());
        for (std::size_t a = 0; a < n.axes.size(); ++a) {
          const Axis& axis = n.axes[a];
          from.push_back(at[a + 2] * axis.stride + tap[a + 1] * axis.dilation - axis.begin);
          if (from.back() < 0 || from.back() >= axis.size) return;
        }
        expected += xv[flat(n.x, from)] * wv[flat(n.w, weight)];
      });
      CHECK(yv[flat(n.y, at)] == Approx(expected).margin(1e-12));
    });
  }
}

TEST_CASE("ConvTranspose is the adjoint of Conv") {
  std::mt19937 random(2);
  for (int round = 0; round < 30; ++round) {
    Instance n = random_instance(random, 1 + static_cast<std::size_t>(round) % 3);
    const Tensor x = random_tensor(n.x, random), w = random_tensor(n.w, random), y = random_tensor(n.y, random);
    // The remainder of Conv's floor division is the output padding that restores x's sizes.
    Indices output_padding;
    for (const Axis& a : n.axes)
      output_padding.push_back((a.size + a.begin + a.end - a.dilation * (a.kernel - 1) - 1) % a.stride);
    const auto forward = evaluate("Conv", {x, w}, n.named)[0];
    n.named.emplace_back("output_padding", output_padding);
    const auto backward = evaluate("ConvTranspose", {y, w}, n.named)[0];
    REQUIRE(backward.sizes() == n.x);
    const auto xv = x.reals(), yv = y.reals(), fv = forward.reals(), bv = backward.reals();
    double left = 0, right = 0;
    for (std::size_t k = 0; k < yv.size(); ++k) left += fv[k] * yv[k];
    for (std::size_t k = 0; k < xv.size(); ++k) right += xv[k] * bv[k];
    CHECK(left == Approx(right).margin(1e-9));
  }
}

TEST_CASE("ConvWeightGradient is the adjoint of Conv in its weights") {
  std::mt19937 random(3);
  for (int round = 0; round < 30; ++round) {
    const Instance n = random_instance(random, 1 + static_cast<std::size_t>(round) % 3);
    const Tensor x = random_tensor(n.x, random), w = random_tensor(n.w, random), y = random_tensor(n.y, random);
    Named named;
    Indices kernel;
    for (const Axis& a : n.axes) kernel.emplace_back(a.kernel);
    for (const auto& [field, value] : n.named)
      if (field != "pads_end") named.emplace_back(field, value);
    named.emplace_back("kernel", kernel);
    const auto forward = evaluate("Conv", {x, w}, n.named)[0], backward = evaluate("ConvWeightGradient", {x, y}, named)[0];
    REQUIRE(backward.sizes() == n.w);
    const auto wv = w.reals(), yv = y.reals(), fv = forward.reals(), bv = backward.reals();
    double left = 0, right = 0;
    for (std::size_t k = 0; k < yv.size(); ++k) left += fv[k] * yv[k];
    for (std::size_t k = 0; k < wv.size(); ++k) right += wv[k] * bv[k];
    CHECK(left == Approx(right).margin(1e-9));
  }
}

TEST_CASE("shapes and messages of convolutions") {
  const Index n = Index::symbol("N"), h = Index::symbol("H");
  const Named same{{"pads_begin", Indices{1, 1}}, {"pads_end", Indices{1, 1}}};
  CHECK(shape_of("Conv", {reals({n, 3, h, 8}), reals({5, 3, 3, 3})}, same) == to_string(Indices{n, 5, h, 8}));
  CHECK(shape_of("Conv", {reals({1, 64, 8, 8}), reals({5, 3, 3, 3})}) == "weight has 3 input channels, input has 64 (group 1)");
  CHECK(shape_of("Conv", {reals({1, 6, 8}), reals({3, 3, 3})}, {{"group", Index(2)}}) ==
        "weight has 3 output channels, not a multiple of group 2");
  CHECK(shape_of("Conv", {reals({1, 3, 2}), reals({5, 3, 3})}) ==
        "window of 3 does not fit into 2 (spatial axis 0, padding included)");
  CHECK(shape_of("Conv", {reals({1, 3, 4}), reals({5, 3, 3}), reals({4})}) == "bias has 4 elements for 5 output channels");
  CHECK(shape_of("Conv", {reals({1, 3, 4}), reals({5, 3, 3})}, {{"strides", Indices{0}}}) == "stride 0 is not positive");
  CHECK(shape_of("Conv", {reals({1, 3, 4}), reals({5, 3, 3})}, {{"strides", Indices{1, 1}}}) ==
        "strides has 2 entries for 1 axes");
  CHECK(shape_of("ConvTranspose", {reals({n, 3, h}), reals({3, 2, 4})}, {{"strides", Indices{2}}, {"group", Index(3)}}) ==
        to_string(Indices{n, 6, 2 * h + 2}));
  const Named three{{"kernel", Indices{3}}, {"group", Index(2)}};
  CHECK(shape_of("ConvWeightGradient", {reals({n, 6, h}), reals({n, 4, h})}, three) == to_string(Indices{4, 3, 3}));
  CHECK(shape_of("ConvWeightGradient", {reals({1, 3, 8}), reals({1, 4, 8})}, three) ==
        "input has 3 channels, not a multiple of group 2");
  CHECK(shape_of("ConvWeightGradient", {reals({2, 4, 8}), reals({1, 4, 8})}, three) == "gradient is of 1 examples, input of 2");
  CHECK(shape_of("ConvTranspose", {reals({1, 4, 4}), reals({3, 2, 4})}) == "weight has 3 input channels, input has 4");
}

}  // namespace
}  // namespace rewright::testing
