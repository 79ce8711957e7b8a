#include "operators/readings/interpreter.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "operators/readings/zeros_outside.h"

namespace rewright::operators {
namespace {

// Operators defined here alone, to test the interpreter without the library's own definitions.
struct Windows {  // y[i] = sum(k < size) x[i*stride + k - pad] * w[k], with 0 outside
  static constexpr std::string_view kName = "Windows";
  static constexpr InputCount kInputs{2, 2};
  Index stride = 1, pad = 0;
  template <class V>
  void fields(V&& v) {
    v("stride", stride);
    v("pad", pad);
  }
  Definition define(const Inputs& in) const {
    Definition d(in);
    const Index k = in[1].size(0);
    d.output(in[0].type(), {floor_div(in[0].size(0) + 2 * pad - k, stride) + 1}, [&](const Indices& i) {
      return sum("k", k, [&](const Index& j) { return in[0].padded({i[0] * stride + j - pad}) * in[1]({j}); });
    });
    return d;
  }
};

struct Triangle {  // y[i, j] = max(k < n | k <= i, k != j) x[k]
  static constexpr std::string_view kName = "Triangle";
  Definition define(const Inputs& in) const {
    Definition d(in);
    const Index n = in[0].size(0);
    d.output(in[0].type(), {n, n}, [&](const Indices& i) {
      return reduce(
          Reduction::kMax, "k", {n}, [&](const Indices& k) { return in[0](k); },
          [&](const Indices& k) {
            return std::vector<Condition>{less_equal(k[0], i[0]), not_equal(k[0], i[1])};
          });
    });
    return d;
  }
};

struct Lookup {  // y[i] = x[index[i]]
  static constexpr std::string_view kName = "Lookup";
  static constexpr InputCount kInputs{2, 2};
  Definition define(const Inputs& in) const {
    Definition d(in);
    d.output(in[0].type(), in[1].shape(), [&](const Indices& i) { return in[0]({Index::load(in[1](i))}); });
    return d;
  }
};

const Registry& test_operators() {
  static Registry r;
  static const bool once = (r.add<Windows>(), r.add<Triangle>(), r.add<Lookup>(), true);
  (void)once;
  return r;
}

Tensor random_vector(std::mt19937& random, std::int64_t n) {
  std::vector<double> v(static_cast<std::size_t>(n));
  for (double& x : v) x = static_cast<int>(random() % 19) - 9;
  return Tensor::from_reals(DataType::kDouble, {n}, v);
}

TEST_CASE("zeros outside are multiplied where that is asked for") {
  Windows op;
  op.pad = 1;
  const Operator& windows = test_operators().get("Windows");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> x{1, 2, 3}, w{nan, 1};
  const std::vector inputs{Tensor::from_reals(DataType::kDouble, {3}, x), Tensor::from_reals(DataType::kDouble, {2}, w)};
  CHECK(interpret(windows, to_attributes(op), inputs).at(0).reals().at(0) == 1);
  for (const double y : interpret_with_zeros_outside(windows, to_attributes(op), inputs).at(0).reals()) CHECK(std::isnan(y));
}

TEST_CASE("zeros outside make no difference where weights are finite, whatever the image has") {
  std::mt19937 random(6);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr std::array kElements = {0.0, -0.0, 1.5, -2.0, kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()};
  const Operator& windows = test_operators().get("Windows");
  for (int round = 0; round < 100; ++round) {
    Windows op;
    op.pad = static_cast<std::int64_t>(random() % 3);
    std::vector<double> x(3 + random() % 4);
    for (double& v : x) v = kElements[random() % kElements.size()];
    const std::vector inputs{Tensor::from_reals(DataType::kDouble, {static_cast<std::int64_t>(x.size())}, x),
                             random_vector(random, 1 + static_cast<std::int64_t>(random() % 3))};
    const std::vector<double> left_out = interpret(windows, to_attributes(op), inputs).at(0).reals();
    const std::vector<double> kept = interpret_with_zeros_outside(windows, to_attributes(op), inputs).at(0).reals();
    REQUIRE(left_out.size() == kept.size());
    for (std::size_t i = 0; i < kept.size(); ++i)
      CHECK((left_out[i] == kept[i] || (std::isnan(left_out[i]) && std::isnan(kept[i]))));
  }
}

TEST_CASE("padded windows with strides agree with plain loops") {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    const std::int64_t n = 1 + random() % 9, k = 1 + random() % 4, stride = 1 + random() % 3, pad = random() % 4;
    if (n + 2 * pad < k) continue;
    const Tensor x = random_vector(random, n), w = random_vector(random, k);
    Windows op;
    op.stride = stride;
    op.pad = pad;
    const Tensor y = interpret(test_operators().get("Windows"), to_attributes(op), std::vector{x, w}).at(0);
    REQUIRE(y.size() == (n + 2 * pad - k) / stride + 1);
    for (std::int64_t i = 0; i < y.size(); ++i) {
      double expected = 0;
      for (std::int64_t j = 0; j < k; ++j) {
        const std::int64_t at = i * stride + j - pad;
        if (at >= 0 && at < n) expected += x.data<double>()[at] * w.data<double>()[j];
      }
      REQUIRE(y.data<double>()[i] == expected);
    }
  }
}

TEST_CASE("guards of a reduction, and its neutral element") {
  std::mt19937 random(3);
  const Tensor x = random_vector(random, 5);
  const Tensor y = interpret(test_operators().get("Triangle"), {}, std::vector{x}).at(0);
  for (std::int64_t i = 0; i < 5; ++i)
    for (std::int64_t j = 0; j < 5; ++j) {
      double expected = -INFINITY;
      for (std::int64_t k = 0; k <= i; ++k)
        if (k != j) expected = std::max(expected, x.data<double>()[k]);
      CHECK(y.data<double>()[i * 5 + j] == expected);
    }
}

TEST_CASE("data-dependent reads are checked against the bounds") {
  const Tensor x = Tensor::from_reals(DataType::kFloat, {3}, std::vector<double>{1, 2, 3});
  const auto run = [&](std::vector<std::int64_t> at) {
    const Tensor i = Tensor::from_integers(DataType::kInt64, {static_cast<std::int64_t>(at.size())}, at);
    return interpret(test_operators().get("Lookup"), {}, std::vector{x, i}).at(0).reals();
  };
  CHECK(run({2, 0, 2}) == std::vector<double>{3, 1, 3});
  CHECK(run({}).empty());
  CHECK_THROWS_WITH(run({3}), Catch::Contains("outside of an axis of size 3"));
}

TEST_CASE("the field agrees with the reals on integers") {
  std::mt19937 random(4);
  const Tensor x = random_vector(random, 8), w = random_vector(random, 3);
  const auto residues = [](const Tensor& t) {
    FieldTensor f{t.type(), t.sizes(), {}};
    for (double v : t.reals())
      f.elements.push_back(v < 0 ? kFieldPrime - static_cast<std::uint64_t>(-v) : static_cast<std::uint64_t>(v));
    return f;
  };
  Windows op;
  op.pad = 1;
  const Tensor y = interpret(test_operators().get("Windows"), to_attributes(op), std::vector{x, w}).at(0);
  const FieldTensor z =
      interpret_in_field(test_operators().get("Windows"), to_attributes(op), std::vector{residues(x), residues(w)}, 7).at(0);
  CHECK(z.elements == residues(y).elements);
}

TEST_CASE("half and bfloat16 round to nearest even") {
  CHECK(half_to_float(float_to_half(65504.0f)) == 65504.0f);
  CHECK(half_to_float(float_to_half(65520.0f)) == INFINITY);
  CHECK(half_to_float(float_to_half(1e-7f)) == Approx(1.19209e-07));
  CHECK(float_to_half(2049.0f) == float_to_half(2048.0f));
  CHECK(bfloat16_to_float(float_to_bfloat16(1.00390625f)) == 1.0f);
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float v = half_to_float(static_cast<std::uint16_t>(bits));
    if (!std::isnan(v)) REQUIRE(float_to_half(v) == bits);
  }
}

}  // namespace
}  // namespace rewright::operators
