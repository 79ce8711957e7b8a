// Sums of doubles without rounding: the same bits in whatever order and in however many parts the numbers come.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace rewright::distribution {

// A sum of finite numbers that are not negative, as a long integer in units of the smallest double (Kulisch, Computer
// Arithmetic and Validity, 2008). Digits of it can be added up by an all-reduce of doubles, exactly for up to 2^20 processes.
class ExactSum {
 public:
  void add(double value);  // infinity counts as the largest double
  // Of digits that were added up from those of several sums.
  static ExactSum of(std::span<const double> digits);
  std::vector<double> digits();  // each a whole number below 2^32
  double value();                // within a unit in the last place; infinite beyond the largest double

 private:
  void carry();
  static constexpr int kLowest = -1074, kDigits = 68;  // 2^-1074 is the smallest double; 2^40 numbers fit in
  std::array<std::uint64_t, kDigits> digits_{};        // of 32 bits, with room for carries
  std::uint64_t additions_ = 0;                        // since they were carried
};

}  // namespace rewright::distribution
