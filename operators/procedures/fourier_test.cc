#include "operators/procedures/fourier.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <numbers>
#include <random>

using rewright::operators::Fourier;

TEST_CASE("Fourier transforms of all lengths are the sums that define them") {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> uniform(-1, 1);
  constexpr auto kLanes = static_cast<std::size_t>(Fourier::kLanes);
  // Powers, products of small primes, primes with and without a butterfly, and products with large primes.
  for (const std::size_t n : {1U, 2U, 3U, 4U, 5U, 6U, 8U, 12U, 15U, 29U, 31U, 37U, 64U, 74U, 80U, 97U, 120U, 128U}) {
    CAPTURE(n);
    std::vector<double> re(n * kLanes), im(n * kLanes);
    for (double& v : re) v = uniform(random);
    for (double& v : im) v = uniform(random);
    std::vector<double> re_result = re, im_result = im;
    Fourier(static_cast<std::int64_t>(n)).transform(re_result, im_result);
    double worst = 0;
    for (std::size_t lane = 0; lane < kLanes; lane += 3)
      for (std::size_t k = 0; k < n; ++k) {
        std::complex<double> sum = 0;
        for (std::size_t t = 0; t < n; ++t)
          sum += std::complex(re[t * kLanes + lane], im[t * kLanes + lane]) *
                 std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(k * t % n) / static_cast<double>(n));
        worst = std::max(worst, std::abs(sum - std::complex(re_result[k * kLanes + lane], im_result[k * kLanes + lane])));
      }
    CHECK(worst < 1e-12 * static_cast<double>(n));
  }
}
