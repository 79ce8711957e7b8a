// Sums of doubles without rounding: the same bits whatever the order of the numbers, and however they are split into partial
// sums.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace rewright::distribution {

// A sum of nonnegative numbers, kept as a long integer in units of the smallest double (Kulisch, Computer Arithmetic and
// Validity, 2008). Sums of several processes are added by an all-reduce of their digits, which is exact for up to 2^20
// processes:
//
//   ExactSum squares;
//   for (const double v : mine) squares.add(v * v);
//   std::vector<double> digits = squares.digits();
//   all_reduce(processes, {}, std::as_writable_bytes(std::span(digits)), DataType::kDouble);
//   const double total = ExactSum::of(digits).value();
class ExactSum {
 public:
  void add(double value);  // infinity counts as the largest double
  // The sum with these digits, which may be digit-wise sums of several sums' digits.
  static ExactSum of(std::span<const double> digits);
  std::vector<double> digits();  // lowest first, each a whole number below 2^32
  double value();                // within a unit in the last place; infinite beyond the largest double

 private:
  void carry();
  static constexpr int kLowest = -1074, kDigits = 68;  // 2^-1074 is the smallest double; sums of 2^40 numbers fit
  std::array<std::uint64_t, kDigits> digits_{};        // lowest first, 32 bits each; the upper half collects carries
  std::uint64_t additions_ = 0;                        // since the last carry()
};

}  // namespace rewright::distribution
