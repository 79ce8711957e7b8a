#include <catch2/catch.hpp>

#include "operators/testing.h"

namespace rewright::testing {
namespace {

using Values = std::vector<double>;

TEST_CASE("Split takes apart what Concat put together") {
  std::mt19937 random(6);
  for (const std::int64_t axis : {0, 1, 2}) {
    std::vector<Tensor> parts;
    Indices sizes;
    for (const std::int64_t size : {2, 1, 0, 3}) {
      Sizes shape{2, 3, 4};
      shape[static_cast<std::size_t>(axis)] = size;
      sizes.push_back(size);
      parts.push_back(random_tensor(shape, random));
    }
    const Tensor whole = evaluate("Concat", parts, {{"axis", Index(axis - 3)}})[0];
    CHECK(evaluate("Split", {whole}, {{"axis", Index(axis)}, {"sizes", sizes}}) == parts);
  }
  const Index n = Index::symbol("N");
  CHECK(shape_of("Concat", {reals({n, 3}), reals({n, 4})}, {{"axis", Index(1)}}) == "[N, 7]");
  CHECK(shape_of("Concat", {reals({2, 3}), reals({4, 4})}, {{"axis", Index(1)}}) ==
        "axis 0 has size 2 in input 0 and 4 in input 1");
  CHECK(shape_of("Split", {reals({6})}, {{"sizes", Indices{2, 3}}}) == "pieces [2, 3] do not add up to the size 6 of axis 0");
}

TEST_CASE("Slice") {
  const Tensor x = tensor({2, 4}, {0, 1, 2, 3, 4, 5, 6, 7});
  const auto y = evaluate("Slice", {x}, {{"begin", Indices{0, 3}}, {"length", Indices{2, 2}}, {"step", Indices{1, -2}}})[0];
  CHECK(y.reals() == Values{3, 1, 7, 5});
  const Operator& op = registry().get("Slice");
  const Inputs in = Inputs::of(std::vector{reals({4})});
  CHECK(op.normalized({Indices{2}, Indices{1}, Indices{5}}, in) == op.normalized({Indices{2}, Indices{1}, Indices{1}}, in));
}

TEST_CASE("Pad in all modes") {
  const Tensor x = tensor({3}, {1, 2, 3});
  const auto padded = [&](const std::string& mode, std::int64_t begin, std::int64_t end) {
    return evaluate("Pad", {x},
                    {{"pads_begin", Indices{begin}}, {"pads_end", Indices{end}}, {"mode", mode}, {"value", Real(9)}})[0]
        .reals();
  };
  CHECK(padded("constant", 1, 2) == Values{9, 1, 2, 3, 9, 9});
  CHECK(padded("constant", -1, 1) == Values{2, 3, 9});
  CHECK(padded("edge", 2, 1) == Values{1, 1, 1, 2, 3, 3});
  CHECK(padded("reflect", 2, 2) == Values{3, 2, 1, 2, 3, 2, 1});
  CHECK(padded("wrap", 2, 4) == Values{2, 3, 1, 2, 3, 1, 2, 3, 1});
  const Tensor fill = tensor({}, {5});
  CHECK(evaluate("Pad", {x, fill}, {{"pads_end", Indices{1}}})[0].reals() == Values{1, 2, 3, 5});
  CHECK(shape_of("Pad", {reals({2})}, {{"pads_begin", Indices{-3}}}) == "axis 0 has size 2, pads -3 and 0 leave nothing");
}

TEST_CASE("Tile") {
  const Tensor x = tensor({1, 2}, {1, 2});
  CHECK(evaluate("Tile", {x}, {{"repeats", Indices{2, 2}}})[0].reals() == Values{1, 2, 1, 2, 1, 2, 1, 2});
  CHECK(shape_of("Tile", {reals({2})}, {{"repeats", Indices{1, 1}}}) == "repeats has 2 entries for 1 axes");
}

}  // namespace
}  // namespace rewright::testing
