#include "verifier/rational.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace rewright::proof {

namespace {

using Wide = __int128;

Wide divisor(Wide a, Wide b) {
  if (a < 0) a = -a;
  if (b < 0) b = -b;
  while (b != 0) {
    const Wide r = a % b;
    a = b, b = r;
  }
  return a;
}

Rational reduced(Wide numerator, Wide denominator) {
  if (denominator == 0) throw Error(ErrorCode::kUnsupported, "a fraction with denominator 0");
  if (denominator < 0) numerator = -numerator, denominator = -denominator;
  const Wide g = divisor(numerator, denominator);
  numerator /= g, denominator /= g;
  constexpr Wide kLimit = std::numeric_limits<std::int64_t>::max();
  if (numerator > kLimit || numerator < -kLimit || denominator > kLimit)
    throw Error(ErrorCode::kUnsupported, "a coefficient is beyond 64 bits");
  return {static_cast<std::int64_t>(numerator), static_cast<std::int64_t>(denominator)};
}

}  // namespace

Rational::Rational(std::int64_t numerator, std::int64_t denominator) : numerator_(numerator), denominator_(denominator) {
  if (denominator == 1) return;
  if (denominator > 0 && std::gcd(numerator, denominator) == 1) return;
  *this = reduced(numerator, denominator);
}

std::optional<Rational> Rational::exactly(double value) {
  if (!std::isfinite(value)) return std::nullopt;
  int exponent = 0;
  auto mantissa = static_cast<std::int64_t>(std::ldexp(std::frexp(value, &exponent), 53));
  exponent -= 53;
  while (mantissa != 0 && mantissa % 2 == 0) mantissa /= 2, ++exponent;
  if (mantissa == 0) return Rational(0);
  if (exponent < -62 || exponent > 62) return std::nullopt;
  const Wide power = Wide{1} << (exponent < 0 ? -exponent : exponent);
  try {
    return exponent < 0 ? reduced(mantissa, power) : reduced(mantissa * power, 1);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string Rational::to_string() const {
  return std::to_string(numerator_) + (denominator_ == 1 ? "" : "/" + std::to_string(denominator_));
}

Rational operator+(const Rational& a, const Rational& b) {
  return reduced(Wide{a.numerator_} * b.denominator_ + Wide{b.numerator_} * a.denominator_,
                 Wide{a.denominator_} * b.denominator_);
}

Rational operator*(const Rational& a, const Rational& b) {
  return reduced(Wide{a.numerator_} * b.numerator_, Wide{a.denominator_} * b.denominator_);
}

std::optional<Rational> exact_root(const Rational& square) {
  const auto root = [](std::int64_t n) -> std::optional<std::int64_t> {
    if (n < 0) return std::nullopt;
    const auto near = static_cast<std::int64_t>(std::sqrt(static_cast<double>(n)));
    for (const std::int64_t r : {near - 1, near, near + 1})
      if (r >= 0 && Wide{r} * r == n) return r;
    return std::nullopt;
  };
  const auto above = root(square.numerator()), below = root(square.denominator());
  return above && below ? std::optional(Rational(*above, *below)) : std::nullopt;
}

Rational common_divisor(const Rational& a, const Rational& b) {
  if (a.is_zero()) return b.absolute();
  if (b.is_zero()) return a.absolute();
  return reduced(divisor(Wide{a.numerator()} * b.denominator(), Wide{b.numerator()} * a.denominator()),
                 Wide{a.denominator()} * b.denominator());
}

}  // namespace rewright::proof
