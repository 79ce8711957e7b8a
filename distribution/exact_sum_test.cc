#include "distribution/exact_sum.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace rewright::distribution {

TEST_CASE("an exact sum is the same in any order and in any parts") {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> exponent(-320, 300), mantissa(1, 2);
  for (int round = 0; round < 20; ++round) {
    std::vector<double> numbers;
    for (int n = 0; n < 200; ++n) numbers.push_back(mantissa(random) * std::pow(10, exponent(random)));
    ExactSum whole;
    for (const double v : numbers) whole.add(v);
    std::shuffle(numbers.begin(), numbers.end(), random);
    std::vector<double> digits;
    for (std::size_t first = 0; first < numbers.size(); first += 37) {
      ExactSum part;
      for (std::size_t n = first; n < std::min(first + 37, numbers.size()); ++n) part.add(numbers[n]);
      const std::vector<double> more = part.digits();
      digits.resize(more.size());
      for (std::size_t n = 0; n < more.size(); ++n) digits[n] += more[n];
    }
    CHECK(ExactSum::of(digits).value() == whole.value());
    // From the smallest on, doubles lose next to nothing.
    std::sort(numbers.begin(), numbers.end());
    CHECK(whole.value() == Approx(std::accumulate(numbers.begin(), numbers.end(), 0.0)).epsilon(1e-12));
  }
}

TEST_CASE("exact sums where doubles lose") {
  ExactSum sum;
  CHECK(sum.value() == 0);
  sum.add(0x1p60);
  for (int n = 0; n < 512; ++n) sum.add(1);
  CHECK(sum.value() == 0x1p60 + 512);
  for (const double v : {std::numeric_limits<double>::denorm_min(), 3 * std::numeric_limits<double>::denorm_min(),
                         std::numeric_limits<double>::min(), 1.0 / 3, std::numeric_limits<double>::max()}) {
    ExactSum one;
    one.add(v);
    CHECK(one.value() == v);
    one.add(v);
    CHECK(one.value() == 2 * v);
  }
}

}  // namespace rewright::distribution
