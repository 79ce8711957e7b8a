// Exact fractions of 64-bit integers. Overflow throws Error(kUnsupported): a proof may be missed, but is never wrong.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

namespace rewright::proof {

class Rational {
 public:
  Rational(std::int64_t numerator = 0, std::int64_t denominator = 1);  // NOLINT: a number is a fraction
  static std::optional<Rational> exactly(double value);                // if it fits

  std::int64_t numerator() const { return numerator_; }
  std::int64_t denominator() const { return denominator_; }  // positive
  bool is_zero() const { return numerator_ == 0; }
  Rational reciprocal() const { return {denominator_, numerator_}; }
  Rational absolute() const { return numerator_ < 0 ? -*this : *this; }
  std::string to_string() const;

  Rational operator-() const { return Rational(-1) * *this; }
  friend Rational operator+(const Rational& a, const Rational& b);
  friend Rational operator*(const Rational& a, const Rational& b);
  friend bool operator==(const Rational&, const Rational&) = default;

 private:
  std::int64_t numerator_, denominator_;
};

// The root of a square; nullopt for other numbers.
std::optional<Rational> exact_root(const Rational& square);

// The largest positive fraction of which both are integer multiples; if one is 0, the other's absolute value.
Rational common_divisor(const Rational& a, const Rational& b);

}  // namespace rewright::proof
