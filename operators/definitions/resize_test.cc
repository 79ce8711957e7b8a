#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "operators/definitions/resample.h"
#include "operators/testing.h"

namespace rewright::testing {
namespace {

using Values = std::vector<double>;

Values resized(const Values& x, std::int64_t size, const std::string& mode, const std::string& coordinates,
               const std::string& rounding = "round_prefer_floor") {
  return evaluate("Resize", {tensor({static_cast<std::int64_t>(x.size())}, x)},
                  {{"sizes", Indices{size}}, {"mode", mode}, {"coordinates", coordinates}, {"rounding", rounding}})[0]
      .reals();
}

TEST_CASE("nearest elements") {
  CHECK(resized({1, 2}, 4, "nearest", "asymmetric", "floor") == Values{1, 1, 2, 2});
  CHECK(resized({1, 2}, 4, "nearest", "asymmetric", "ceil") == Values{1, 2, 2, 2});
  CHECK(resized({1, 2, 3}, 5, "nearest", "align_corners") == Values{1, 1, 2, 2, 3});
  CHECK(resized({1, 2, 3}, 5, "nearest", "align_corners", "round_prefer_ceil") == Values{1, 2, 2, 3, 3});
  CHECK(resized({1, 2, 3, 4}, 2, "nearest", "half_pixel") == Values{1, 3});
  CHECK(resized({1, 2, 3, 4}, 2, "nearest", "tf_half_pixel_for_nn", "floor") == Values{2, 4});
}

TEST_CASE("corners are aligned where size times scale is no whole number") {
  for (const std::string mode : {"nearest", "linear", "cubic"}) {
    const Named named = {{"sizes", Indices{2}},
                         {"numerators", Indices{3}},
                         {"denominators", Indices{5}},
                         {"mode", mode},
                         {"coordinates", std::string("align_corners")}};
    CHECK(evaluate("Resize", {tensor({4}, {1, 2, 3, 4})}, named)[0].reals() == Values{1, 4});
  }
}

TEST_CASE("linear interpolation") {
  CHECK(resized({0, 4}, 4, "linear", "half_pixel") == Values{0, 1, 3, 4});
  CHECK(resized({0, 4}, 4, "linear", "asymmetric") == Values{0, 2, 4, 4});
  CHECK(resized({0, 4}, 5, "linear", "align_corners") == Values{0, 1, 2, 3, 4});
  CHECK(resized({3, 5}, 1, "linear", "pytorch_half_pixel") == Values{3});
  const Tensor x = tensor({2, 2}, {0, 4, 8, 12});
  CHECK(evaluate("Resize", {x},
                 {{"sizes", Indices{3, 3}}, {"mode", std::string("linear")}, {"coordinates", std::string("align_corners")}})[0]
            .reals() == Values{0, 2, 4, 4, 6, 8, 8, 10, 12});
}

TEST_CASE("cubic interpolation keeps what is constant, and straight lines inside") {
  for (const double v : resized({3, 3, 3, 3}, 9, "cubic", "half_pixel")) CHECK(v == Approx(3));
  const Values y = resized({0, 1, 2, 3, 4, 5, 6, 7}, 16, "cubic", "asymmetric");
  for (std::size_t k = 2; k <= 10; k += 2) CHECK(y[k] == Approx(static_cast<double>(k) / 2));
}

TEST_CASE("a filter against aliases averages where it shrinks") {
  const Named named{{"sizes", Indices{2}}, {"mode", std::string("linear")}, {"antialias", true}};
  const Values y = evaluate("Resize", {tensor({4}, {0, 0, 8, 8})}, named)[0].reals();
  CHECK(y[0] == Approx(1));  // weights 1/8 (edge), 3/8, 3/8, 1/8
  CHECK(y[0] + y[1] == Approx(8));
}

TEST_CASE("one axis after the other gives what all axes give at once") {
  static const char* const kModes[] = {"linear", "cubic", "nearest"};
  static const char* const kCoordinates[] = {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"};
  const Operator& resize = registry().get("Resize");
  std::mt19937 random(1);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  int divided = 0;
  for (int round = 0; round < 300; ++round) {
    Sizes from{2}, to{2};
    Indices numerators{1}, denominators{1};
    for (std::int64_t a = pick(1, 3); a > 0; --a) {
      const bool changes = pick(0, 3) > 0;
      from.push_back(pick(1, 6)), to.push_back(changes ? pick(1, 9) : from.back());
      numerators.emplace_back(changes ? pick(1, 5) : 1), denominators.emplace_back(changes ? pick(1, 5) : 1);
    }
    Named named{{"sizes", to_indices(to)},
                {"mode", std::string(kModes[pick(0, 5) == 0 ? 2 : pick(0, 1)])},
                {"coordinates", std::string(kCoordinates[pick(0, 3)])},
                {"exclude_outside", pick(0, 1) == 1},
                {"antialias", pick(0, 2) == 0}};
    if (pick(0, 1) == 1) named.push_back({"numerators", numerators}), named.push_back({"denominators", denominators});
    std::vector<double> elements(static_cast<std::size_t>(element_count(from)));
    for (double& e : elements) e = static_cast<double>(pick(-9, 9));
    const Tensor x = Tensor::from_reals(DataType::kDouble, from, elements);
    const Tensor expected = evaluate("Resize", {x}, named)[0];
    const std::vector<std::optional<TensorType>> types{TensorType{x.type(), to_indices(from)}};
    const Attributes whole = resize.normalized(attributes(resize, named), operators::Inputs::of(types));
    const std::vector<Attributes> steps = operators::resizes_by_axis(whole, from);
    if (steps.empty()) continue;
    ++divided;
    Tensor y = x;
    for (const Attributes& step : steps) y = operators::interpret(resize, step, std::vector<Tensor>{y})[0];
    REQUIRE(y.sizes() == expected.sizes());
    for (std::size_t i = 0; i < expected.reals().size(); ++i) {
      const double actual = y.reals()[i], wanted = expected.reals()[i];  // NaN where all taps lie outside
      CHECK((std::isnan(wanted) ? std::isnan(actual) : actual == Approx(wanted).margin(1e-9)));
    }
  }
  CHECK(divided > 100);
}

TEST_CASE("a crop, with a value for what is outside") {
  const Named named{{"sizes", Indices{3}},
                    {"mode", std::string("linear")},
                    {"coordinates", std::string("tf_crop_and_resize")},
                    {"crop", Values{0.5, 1.5}},
                    {"extrapolation", Real(9)}};
  CHECK(evaluate("Resize", {tensor({5}, {0, 1, 2, 3, 4})}, named)[0].reals() == Values{2, 4, 9});
}

TEST_CASE("a resize by symbolic sizes") {
  const Index h = Index::symbol("H");
  CHECK(shape_of("Resize", {reals({1, h})},
                 {{"sizes", Indices{1, 2 * h}}, {"numerators", Indices{1, 2}}, {"denominators", Indices{1, 1}}}) ==
        to_string(Indices{1, 2 * h}));
  CHECK(shape_of("Resize", {reals({1, 0})}, {{"sizes", Indices{1, 2}}}) != "[1, 2]");
  CHECK(shape_of("Resize", {reals({4})}, {{"sizes", Indices{2}}, {"mode", std::string("area")}}) == "mode is 'area'");
}

}  // namespace
}  // namespace rewright::testing
