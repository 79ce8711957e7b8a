#include <catch2/catch.hpp>
#include <numeric>

#include "operators/testing.h"

namespace rewright::testing {
namespace {

Tensor counting(Sizes sizes, DataType type = DataType::kFloat) {
  std::vector<double> values(static_cast<std::size_t>(element_count(sizes)));
  std::iota(values.begin(), values.end(), 0);
  return tensor(std::move(sizes), values, type);
}

TEST_CASE("Transpose moves axes") {
  const Tensor x = counting({2, 3, 4});
  const auto y = evaluate("Transpose", {x}, {{"perm", Indices{2, 0, 1}}})[0];
  REQUIRE(y.sizes() == Sizes{4, 2, 3});
  const auto values = y.reals();
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t j = 0; j < 2; ++j)
      for (std::size_t k = 0; k < 3; ++k) CHECK(values[(i * 2 + j) * 3 + k] == static_cast<double>((j * 3 + k) * 4 + i));
  CHECK(shape_of("Transpose", {reals({2, 3, 4})}) == "[4, 3, 2]");
  CHECK(shape_of("Transpose", {reals({2, 3})}, {{"perm", Indices{0}}}) == "perm has 1 entries for 2 axes");
}

TEST_CASE("Reshape keeps the row-major order") {
  std::mt19937 random(4);
  const std::vector<std::vector<Sizes>> families{
      {{2, 3, 4}, {6, 4}, {2, 12}, {24}, {3, 2, 4}, {4, 3, 2}, {1, 24, 1}, {2, 1, 3, 4}, {8, 3}},
      {{0, 3}, {3, 0}, {0}},
      {{1}, {}, {1, 1}}};
  for (const auto& family : families)
    for (const Sizes& from : family)
      for (const Sizes& to : family) {
        const Tensor x = counting(from);
        const auto y = evaluate("Reshape", {x}, {{"shape", to_indices(to)}})[0];
        CHECK(y.sizes() == to);
        CHECK(y.reals() == x.reals());
      }
}

TEST_CASE("an axis that a reshape leaves alone keeps its position") {
  const Index n = Index::symbol("N"), c = Index::symbol("C"), h = Index::symbol("H"), w = Index::symbol("W");
  const Definition d = define("Reshape", {reals({n, c, h, w})}, {{"shape", Indices{n, c, h * w}}});
  const Output& y = d.outputs()[0];
  CHECK(d.requirements().size() == 3);  // sizes are not negative; equal numbers of elements are already known
  REQUIRE(y.element->position.size() == 4);
  CHECK(y.element->position[0] == y.position[0]);
  CHECK(y.element->position[1] == y.position[1]);
  CHECK(y.element->position[2] == floor_div(y.position[2], w));
  CHECK(y.element->position[3] == mod(y.position[2], w));
}

TEST_CASE("Flatten, Squeeze, Unsqueeze, Expand") {
  const Index n = Index::symbol("N");
  CHECK(shape_of("Flatten", {reals({n, 3, 4})}) == "[N, 12]");
  CHECK(shape_of("Flatten", {reals({n, 3, 4})}, {{"axis", Index(3)}}) == to_string(Indices{12 * n, 1}));
  CHECK(shape_of("Flatten", {reals({n, 3, 4})}, {{"axis", Index(-1)}}) == to_string(Indices{3 * n, 4}));
  CHECK(shape_of("Squeeze", {reals({1, n, 1})}) == "[N]");
  CHECK(shape_of("Squeeze", {reals({1, 2, 1})}, {{"axes", Indices{-1}}}) == "[1, 2]");
  CHECK(shape_of("Squeeze", {reals({1, 2})}, {{"axes", Indices{1}}}) == "axis 1 has size 2, not 1");
  CHECK(shape_of("Unsqueeze", {reals({n})}, {{"axes", Indices{-1, 0}}}) == "[1, N, 1]");
  CHECK(shape_of("Unsqueeze", {reals({n})}, {{"axes", Indices{4}}}) == "axis 4 of a tensor of rank 2");
  CHECK(shape_of("Expand", {reals({3, 1})}, {{"shape", Indices{n, 1, 4}}}) == "[N, 3, 4]");
  CHECK(evaluate("Expand", {counting({2, 1})}, {{"shape", Indices{2, 2}}})[0].reals() == std::vector<double>{0, 0, 1, 1});
  CHECK(evaluate("Unsqueeze", {counting({2, 2})}, {{"axes", Indices{1}}})[0].reals() == std::vector<double>{0, 1, 2, 3});
}

TEST_CASE("Cast rounds towards zero") {
  const Tensor x = tensor({4}, {-1.75, 0, 0.25, 3.5});
  CHECK(evaluate("Cast", {x}, {{"to", DataType::kInt32}})[0].integers() == std::vector<std::int64_t>{-1, 0, 0, 3});
  CHECK(evaluate("Cast", {x}, {{"to", DataType::kBool}})[0].integers() == std::vector<std::int64_t>{1, 0, 1, 1});
  CHECK(evaluate("Cast", {x}, {{"to", DataType::kHalf}})[0].reals() == x.reals());
  CHECK(evaluate("Identity", {x})[0] == x);
}

TEST_CASE("blocks of channels and of positions") {
  std::mt19937 random(5);
  const Tensor x = random_tensor({2, 8, 3, 2}, random);
  const auto y = evaluate("DepthToSpace", {x}, {{"blocksize", Index(2)}})[0];
  CHECK(y.sizes() == Sizes{2, 2, 6, 4});
  CHECK(evaluate("SpaceToDepth", {y}, {{"blocksize", Index(2)}})[0] == x);
  const auto z = evaluate("DepthToSpace", {counting({1, 8, 1, 1})}, {{"blocksize", Index(2)}, {"mode", std::string("CRD")}});
  CHECK(z[0].reals() == std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(shape_of("DepthToSpace", {reals({1, 6, 2, 2})}, {{"blocksize", Index(2)}}) ==
        "input has 6 channels, not a multiple of 4");
}

}  // namespace
}  // namespace rewright::testing
