#include <catch2/catch.hpp>

#include "operators/testing.h"

namespace rewright::testing {
namespace {

using Values = std::vector<double>;

TEST_CASE("Fill, Eye and ranges") {
  const auto filled = evaluate("Fill", {}, {{"value", Real(3)}, {"type", DataType::kInt32}, {"shape", Indices{2}}})[0];
  CHECK(filled == tensor({2}, {3, 3}, DataType::kInt32));
  CHECK(evaluate("Eye", {}, {{"size", Index(2)}})[0].reals() == Values{1, 0, 0, 1});
  CHECK(evaluate("EyeLike", {tensor({2, 3}, Values(6, 7))}, {{"k", Index(1)}})[0].reals() == Values{0, 1, 0, 0, 0, 1});
  CHECK(evaluate("Range", {}, {{"start", Index(5)}, {"delta", Index(-2)}, {"count", Index(3)}})[0].reals() == Values{5, 3, 1});
  CHECK(evaluate("RealRange", {}, {{"start", Real(1)}, {"delta", Real(0.5)}, {"count", Index(3)}})[0].reals() ==
        Values{1, 1.5, 2});
  CHECK(evaluate("Trilu", {tensor({2, 2}, {1, 2, 3, 4})}, {{"upper", false}})[0].reals() == Values{1, 0, 3, 4});
}

TEST_CASE("a convolution with a Dirac kernel changes nothing") {
  std::mt19937 random(7);
  for (const std::int64_t group : {1, 2, 4}) {
    const Tensor x = random_tensor({2, 4, 5, 6}, random);
    const auto w = evaluate("DiracKernel", {},
                            {{"channels", Index(4)},
                             {"group", Index(group)},
                             {"kernel", Indices{3, 2}},
                             {"centre", Indices{1, 0}},
                             {"type", DataType::kDouble}})[0];
    CHECK(w.sizes() == Sizes{4, 4 / group, 3, 2});
    CHECK(evaluate("Conv", {x, w}, {{"pads_begin", Indices{1, 0}}, {"pads_end", Indices{1, 1}}, {"group", Index(group)}})[0] ==
          x);
  }
  CHECK(shape_of("DiracKernel", {}, {{"channels", Index(3)}, {"group", Index(2)}}) ==
        "3 channels are not a multiple of group 2");
}

TEST_CASE("Shape and Size") {
  const Tensor x = tensor({2, 3, 1}, Values(6, 0));
  CHECK(evaluate("Shape", {x})[0].integers() == std::vector<std::int64_t>{2, 3, 1});
  CHECK(evaluate("Shape", {x}, {{"start", Index(-2)}, {"end", Index(-1)}})[0].integers() == std::vector<std::int64_t>{3});
  CHECK(evaluate("Size", {x})[0].integers() == std::vector<std::int64_t>{6});
  const Index n = Index::symbol("N");
  const auto contents = known_contents(
      registry().get("Shape"),
      registry().get("Shape").normalized(registry().get("Shape").defaults(), Inputs::of(std::vector{reals({n, 3})})),
      std::vector{reals({n, 3})}, std::vector<std::optional<Indices>>{std::nullopt});
  REQUIRE(contents[0].has_value());
  CHECK(*contents[0] == Indices{n, 3});
}

}  // namespace
}  // namespace rewright::testing
