#include "expressions/small_float.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "expressions/tensor.h"

namespace rewright {

namespace {

constexpr DataType kSmall[] = {DataType::kFloat8e4m3fn,   DataType::kFloat8e4m3fnuz, DataType::kFloat8e5m2,
                               DataType::kFloat8e5m2fnuz, DataType::kFloat4e2m1,     DataType::kFloat8e8m0};

int codes(DataType type) { return 1 << packed_bits(type); }

}  // namespace

TEST_CASE("every code of a small float is the encoding of its value") {
  for (const DataType type : kSmall)
    for (int code = 0; code < codes(type); ++code) {
      const double value = decode_small_float(type, static_cast<std::uint8_t>(code));
      const double again = decode_small_float(type, encode_small_float(type, value));
      INFO(name(type) << " " << code << " is " << value);
      CHECK((again == value || (std::isnan(again) && std::isnan(value))));
      if (!std::isnan(value)) CHECK(std::signbit(again) == std::signbit(value));
    }
}

TEST_CASE("a real becomes the nearest small float") {
  std::mt19937 random(1);
  for (const DataType type : kSmall) {
    if (type == DataType::kFloat8e8m0) continue;  // it rounds up instead
    const double largest = largest_small_float(type);
    std::uniform_real_distribution<double> uniform(-largest, largest);
    for (int n = 0; n < 100; ++n) {
      const double x = uniform(random) * std::exp2(-static_cast<double>(random() % 12));
      const double distance = std::fabs(decode_small_float(type, encode_small_float(type, x)) - x);
      for (int code = 0; code < codes(type); ++code) {
        const double other = decode_small_float(type, static_cast<std::uint8_t>(code));
        if (!std::isnan(other)) CHECK(distance <= std::fabs(other - x));
      }
    }
  }
}

TEST_CASE("largest values, and what is beyond them") {
  CHECK(largest_small_float(DataType::kFloat8e4m3fn) == 448);
  CHECK(largest_small_float(DataType::kFloat8e4m3fnuz) == 240);
  CHECK(largest_small_float(DataType::kFloat8e5m2) == 57344);
  CHECK(largest_small_float(DataType::kFloat8e5m2fnuz) == 57344);
  CHECK(largest_small_float(DataType::kFloat4e2m1) == 6);
  CHECK(std::isnan(decode_small_float(DataType::kFloat8e4m3fn, encode_small_float(DataType::kFloat8e4m3fn, 500))));
  CHECK(decode_small_float(DataType::kFloat8e5m2, encode_small_float(DataType::kFloat8e5m2, -1e9)) == -HUGE_VAL);
  CHECK(decode_small_float(DataType::kFloat4e2m1, encode_small_float(DataType::kFloat4e2m1, -100)) == -6);
  CHECK(decode_small_float(DataType::kFloat8e8m0, encode_small_float(DataType::kFloat8e8m0, 5)) == 8);
}

TEST_CASE("integers of less than 8 bits wrap, strings are kept") {
  const Tensor t = Tensor::from_integers(DataType::kInt4, {4}, std::vector<std::int64_t>{7, 8, -8, -9});
  CHECK(t.integers() == std::vector<std::int64_t>{7, -8, -8, 7});
  CHECK(Tensor::from_integers(DataType::kUint2, {2}, std::vector<std::int64_t>{3, 4}).integers() ==
        std::vector<std::int64_t>{3, 0});
  const Tensor a = Tensor::from_strings({2}, {"a", "bc"}), b = Tensor::from_strings({2}, {"a", "bd"});
  CHECK(a == Tensor::from_strings({2}, {"a", "bc"}));
  CHECK_FALSE(a == b);
  CHECK(a.content_hash() != b.content_hash());
  CHECK(Tensor(DataType::kString, {3}).strings()[2].empty());
  CHECK_THROWS_AS(a.reals(), Error);
}

}  // namespace rewright
