#include <catch2/catch.hpp>
#include <cmath>

#include "operators/testing.h"

namespace rewright::testing {
namespace {

TEST_CASE("Softmax sums to 1 along its axis, and LogSoftmax is its logarithm") {
  std::mt19937 random(8);
  const Tensor x = random_tensor({2, 3, 4}, random);
  for (const int axis : {0, 1, 2, -1}) {
    const Tensor y = evaluate("Softmax", {x}, {{"axis", Index(axis)}})[0];
    for (const double sum : evaluate("ReduceSum", {y}, {{"axes", Indices{axis}}})[0].reals()) CHECK(sum == Approx(1));
    const Tensor logarithm = evaluate("LogSoftmax", {x}, {{"axis", Index(axis)}})[0];
    for (std::size_t i = 0; i < 24; ++i) CHECK(logarithm.reals()[i] == Approx(std::log(y.reals()[i])));
  }
  const auto y = evaluate("Softmax", {x})[0].reals();
  CHECK(y[0] / y[1] == Approx(std::exp(x.reals()[0] - x.reals()[1])));
}

TEST_CASE("Softmax of large elements is finite") {
  const auto y = evaluate("Softmax", {tensor({3}, {10000, 10001, -10000})})[0].reals();
  CHECK(y[1] == Approx(1 / (1 + std::exp(-1))));
  CHECK(y[2] == 0);
}

TEST_CASE("the old form normalizes over all axes from its axis on") {
  std::mt19937 random(9);
  const Tensor x = random_tensor({2, 3, 4}, random);
  const Tensor y = evaluate("Softmax", {x}, {{"axis", Index(1)}, {"flatten", true}})[0];
  CHECK(y == evaluate("Softmax", {x.reshaped({2, 12})})[0].reshaped({2, 3, 4}));
}

TEST_CASE("the old form over one axis is the new form") {
  const Operator& op = registry().get("Softmax");
  const auto canonical = [&](Indices shape, int axis) {
    const std::vector<TensorType> types{reals(std::move(shape))};
    return op.normalized(attributes(op, {{"axis", Index(axis)}, {"flatten", true}}), Inputs::of(types));
  };
  const Index n = Index::symbol("N");
  CHECK(canonical({n, 1000}, 1) == attributes(op, {{"axis", Index(1)}}));
  CHECK(canonical({n, 1000, 1, 1}, -3) == attributes(op, {{"axis", Index(1)}}));
  CHECK(canonical({n, 1000, n}, 1) == attributes(op, {{"axis", Index(1)}, {"flatten", true}}));
}

TEST_CASE("Softmax refuses axes and types that do not fit") {
  CHECK(shape_of("Softmax", {reals({2, 3})}, {{"axis", Index(2)}}) == "axis 2 of a tensor of rank 2");
  CHECK(shape_of("LogSoftmax", {integers({2, 3})}) == "elements are int64, must be real numbers");
}

}  // namespace
}  // namespace rewright::testing
