#include <catch2/catch.hpp>
#include <cmath>

#include "operators/testing.h"

namespace rewright::testing {

namespace {

Tensor integers_of(DataType type, Sizes sizes, std::mt19937& random) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(element_count(sizes)));
  for (auto& v : values) v = static_cast<std::int64_t>(random() % 256) - (type == DataType::kInt8 ? 128 : 0);
  return Tensor::from_integers(type, std::move(sizes), values);
}

Tensor of_type(DataType type, Sizes sizes, const std::vector<std::int64_t>& values) {
  return Tensor::from_integers(type, std::move(sizes), values);
}

Tensor floats(Sizes sizes, const std::vector<double>& values) { return tensor(std::move(sizes), values, DataType::kFloat); }

}  // namespace

TEST_CASE("quantized values are rounded to even, moved by the zero point, and limited") {
  const Tensor x = floats({6}, {0.5, 1.5, -0.5, 100, -1000, 1000}), scale = floats({}, {1});
  CHECK(evaluate("QuantizeLinear", {x, scale, of_type(DataType::kInt8, {}, {3})})[0].integers() ==
        std::vector<std::int64_t>{3, 5, 3, 103, -128, 127});
  CHECK(evaluate("QuantizeLinear", {x, scale})[0].integers() == std::vector<std::int64_t>{0, 2, 0, 100, 0, 255});
  CHECK(evaluate("QuantizeLinear", {x, scale}, {{"output_dtype", DataType::kInt4}})[0].integers() ==
        std::vector<std::int64_t>{0, 2, 0, 7, -8, 7});
  const Tensor f = evaluate("QuantizeLinear", {x, scale}, {{"output_dtype", DataType::kFloat8e4m3fn}})[0];
  CHECK(f.reals() == std::vector<double>{0.5, 1.5, -0.5, 96, -448, 448});
}

TEST_CASE("scales of the tensor, of an axis, of blocks") {
  std::mt19937 random(2);
  const Tensor q = integers_of(DataType::kInt8, {3, 4}, random);
  const Tensor by_axis = floats({3}, {1, 2, 4}), blocked = floats({3, 2}, {1, 2, 3, 4, 5, 6});
  const auto a = evaluate("DequantizeLinear", {q, by_axis}, {{"axis", Index(0)}})[0].reals();
  const auto b = evaluate("DequantizeLinear", {q, blocked}, {{"axis", Index(1)}, {"block_size", Index(2)}})[0].reals();
  for (std::size_t i = 0; i < 12; ++i) {
    CHECK(a[i] == static_cast<double>(q.integers()[i]) * by_axis.reals()[i / 4]);
    CHECK(b[i] == static_cast<double>(q.integers()[i]) * blocked.reals()[i / 2]);
  }
  const TensorType x{DataType::kInt8, {3, 4}}, scale = reals({5});
  CHECK(shape_of("DequantizeLinear", {x, scale}) == "scale has 5 elements for 4 along axis 1");
}

TEST_CASE("what is quantized comes back within half a step") {
  std::mt19937 random(3);
  const Tensor x = random_tensor({50}, random, DataType::kFloat);
  const auto parts = evaluate("DynamicQuantizeLinear", {x});
  const auto back = evaluate("DequantizeLinear", {parts[0], parts[1], parts[2]})[0].reals();
  for (std::size_t i = 0; i < back.size(); ++i) CHECK(std::fabs(back[i] - x.reals()[i]) <= parts[1].reals()[0] * 1.001);
}

TEST_CASE("integer products are products of what is left after the zero points") {
  std::mt19937 random(4);
  const Tensor a = integers_of(DataType::kUint8, {2, 3, 4}, random), b = integers_of(DataType::kInt8, {4, 5}, random);
  const Tensor a_zero = of_type(DataType::kUint8, {3}, {7, 8, 250}), b_zero = of_type(DataType::kInt8, {}, {-3});
  const auto y = evaluate("MatMulInteger", {a, b, a_zero, b_zero})[0].integers();
  for (std::size_t n = 0; n < 2; ++n)
    for (std::size_t r = 0; r < 3; ++r)
      for (std::size_t c = 0; c < 5; ++c) {
        std::int64_t sum = 0;
        for (std::size_t k = 0; k < 4; ++k)
          sum += (a.integers()[(n * 3 + r) * 4 + k] - a_zero.integers()[r]) * (b.integers()[k * 5 + c] + 3);
        CHECK(y[(n * 3 + r) * 5 + c] == sum);
      }
}

TEST_CASE("a quantized convolution is that of the reals it stands for") {
  std::mt19937 random(5);
  const Named pads{{"pads_begin", Indices{1, 1}}, {"pads_end", Indices{1, 1}}};
  for (int n = 0; n < 5; ++n) {
    const Tensor x = integers_of(DataType::kUint8, {1, 2, 5, 4}, random),
                 w = integers_of(DataType::kInt8, {3, 2, 3, 3}, random);
    const Tensor x_scale = floats({}, {0.5}), w_scale = floats({3}, {0.25, 0.5, 1}), y_scale = floats({}, {64});
    const Tensor x_zero = of_type(DataType::kUint8, {}, {128}), w_zero = of_type(DataType::kInt8, {3}, {0, 0, 0});
    const Tensor y_zero = of_type(DataType::kUint8, {}, {100}), bias = of_type(DataType::kInt32, {3}, {5, -6, 7});
    const Tensor y = evaluate("QLinearConv", {x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias}, pads)[0];
    const Tensor real_x = evaluate("DequantizeLinear", {x, x_scale, x_zero})[0];
    const Tensor real_w = evaluate("DequantizeLinear", {w, w_scale, w_zero}, {{"axis", Index(0)}})[0];
    const Tensor real_bias = floats({3}, {5 * 0.125, -6 * 0.25, 7 * 0.5});
    const Tensor expected = evaluate("Conv", {real_x, real_w, real_bias}, pads)[0];
    CHECK(y == evaluate("QuantizeLinear", {expected, y_scale, y_zero})[0]);
    const auto sums = evaluate("ConvInteger", {x, w, x_zero}, pads)[0];
    const auto scaled = evaluate("Conv", {real_x, Tensor::from_integers(DataType::kFloat, w.sizes(), w.integers())}, pads)[0];
    for (std::size_t i = 0; i < sums.integers().size(); ++i)
      CHECK(static_cast<double>(sums.integers()[i]) * 0.5 == scaled.reals()[i]);
  }
}

TEST_CASE("Einsum: products, diagonals, traces, ellipses") {
  std::mt19937 random(6);
  const Tensor a = random_tensor({2, 3, 4}, random), b = random_tensor({2, 4, 5}, random),
               square = random_tensor({3, 3}, random);
  const auto einsum = [](const char* equation, const std::vector<Tensor>& tensors) {
    return evaluate("Einsum", tensors, {{"equation", std::string(equation)}})[0];
  };
  CHECK(einsum("bij,bjk->bik", {a, b}) == evaluate("MatMul", {a, b})[0]);
  CHECK(einsum("...ij,...jk", {a, b}) == evaluate("MatMul", {a, b})[0]);
  CHECK(einsum("ij->ji", {square}) == evaluate("Transpose", {square})[0]);
  const auto s = square.reals();
  CHECK(einsum("ii->i", {square}).reals() == std::vector<double>{s[0], s[4], s[8]});
  CHECK(einsum("ii", {square}).reals()[0] == Approx(s[0] + s[4] + s[8]));
  CHECK_THROWS_WITH(einsum("ij,jk->ik", {square}), Catch::Contains("has 2 operands, 1 are given"));
  CHECK_THROWS_WITH(einsum("i?->i", {square}), Catch::Contains("is not understood"));
  CHECK_THROWS_WITH(einsum("ijk->i", {square}), Catch::Contains("rank 2"));
}

}  // namespace rewright::testing
