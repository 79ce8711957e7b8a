#include <catch2/catch.hpp>
#include <random>

#include "operators/testing.h"

namespace rewright::testing {
namespace {

double position(std::int64_t i, std::int64_t n, bool corners) {
  if (corners) return n == 1 ? 1 : -1 + 2 * static_cast<double>(i) / static_cast<double>(n - 1);
  return -1 + (2 * static_cast<double>(i) + 1) / static_cast<double>(n);
}

TEST_CASE("grids of random sizes, axes of one element among them") {
  std::mt19937 random(1);
  std::uniform_int_distribution<std::int64_t> sizes(0, 4);
  for (int trial = 0; trial < 60; ++trial) {
    const std::int64_t rank = trial % 2 + 2;
    const bool corners = trial % 4 < 2;
    Indices size{sizes(random), 3};
    Sizes extents;
    for (std::int64_t a = 0; a < rank; ++a) extents.push_back(sizes(random)), size.emplace_back(extents.back());
    const Tensor theta = random_tensor({size[0].value(), rank, rank + 1}, random);
    const Tensor grid = evaluate("AffineGrid", {theta}, {{"size", size}, {"align_corners", corners}})[0];
    Sizes shape{size[0].value()};
    shape.insert(shape.end(), extents.begin(), extents.end());
    shape.push_back(rank);
    REQUIRE(grid.sizes() == shape);
    const std::vector<double> elements = grid.reals(), map = theta.reals();
    for (std::int64_t at = 0; at < grid.size(); ++at) {
      std::int64_t rest = at / rank;
      std::vector<double> point;  // x, y, z
      for (std::int64_t a = rank; a-- > 0; rest /= extents[static_cast<std::size_t>(a)]) {
        const std::int64_t n = extents[static_cast<std::size_t>(a)];
        point.push_back(position(rest % n, n, corners));
      }
      point.push_back(1);
      double expected = 0;
      for (std::int64_t k = 0; k <= rank; ++k)
        expected +=
            map[static_cast<std::size_t>((rest * rank + at % rank) * (rank + 1) + k)] * point[static_cast<std::size_t>(k)];
      CHECK(elements[static_cast<std::size_t>(at)] == Approx(expected).margin(1e-12));
    }
  }
}

TEST_CASE("sizes that do not fit an affine map are refused") {
  const auto shape = [](Indices size, Indices theta) {
    return shape_of("AffineGrid", {reals(std::move(theta))}, {{"size", std::move(size)}});
  };
  CHECK(shape({2, 3, 4, 5}, {2, 2, 3}) == "[2, 4, 5, 2]");
  CHECK(shape({2, 3, 4}, {2, 2, 3}).find("size has 3 entries, 4 or 5 are needed") != std::string::npos);
  CHECK(shape({}, {2, 2, 3}).find("size has 0 entries") != std::string::npos);
  CHECK(shape({2, 3, 4, 5}, {1, 2, 3}).find("theta has 1 entries along axis 0, 2 are needed") != std::string::npos);
  CHECK(shape({2, 3, 4, 5, 6}, {2, 2, 3}).find("along axis 1, 3 are needed") != std::string::npos);
}

}  // namespace
}  // namespace rewright::testing
