#include "distribution/exact_sum.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rewright::distribution {

namespace {
constexpr int kBits = 32;
constexpr std::uint64_t kLow = (std::uint64_t{1} << kBits) - 1;
}  // namespace

void ExactSum::add(double value) {
  if (value == 0) return;
  value = std::min(value, std::numeric_limits<double>::max());
  int exponent = 0;
  constexpr int kMantissa = std::numeric_limits<double>::digits;
  // value = mantissa * 2^(exponent - 53); the lowest bits of a subnormal number's mantissa are 0.
  const auto mantissa = static_cast<std::uint64_t>(std::ldexp(std::frexp(value, &exponent), kMantissa));
  const int lowest = exponent - kMantissa - kLowest;
  const auto shifted = lowest >= 0 ? static_cast<unsigned __int128>(mantissa) << (lowest % kBits) : mantissa >> -lowest;
  const auto first = static_cast<std::size_t>(std::max(lowest, 0) / kBits);
  for (std::size_t n = 0; n < 3; ++n) digits_[first + n] += static_cast<std::uint64_t>(shifted >> (kBits * n)) & kLow;
  if (++additions_ == kLow / 2) carry();
}

void ExactSum::carry() {
  std::uint64_t over = 0;
  for (std::uint64_t& digit : digits_) {
    digit += over;
    over = digit >> kBits;
    digit &= kLow;
  }
  additions_ = 0;
}

ExactSum ExactSum::of(std::span<const double> digits) {
  ExactSum sum;
  for (std::size_t n = 0; n < digits.size() && n < kDigits; ++n) sum.digits_[n] = static_cast<std::uint64_t>(digits[n]);
  sum.carry();
  return sum;
}

std::vector<double> ExactSum::digits() {
  carry();
  return {digits_.begin(), digits_.end()};
}

double ExactSum::value() {
  carry();
  std::size_t top = kDigits;
  while (top > 0 && digits_[top - 1] == 0) --top;
  // The highest three nonzero digits hold at least 65 bits; lower digits can only change the rounding.
  double result = 0;
  for (std::size_t n = top; n-- > 0 && n + 3 >= top;)
    result += std::ldexp(static_cast<double>(digits_[n]), kLowest + kBits * static_cast<int>(n));
  return result;
}

}  // namespace rewright::distribution
