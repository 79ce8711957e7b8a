#include "expressions/small_float.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"

namespace rewright {

namespace {

using Format = SmallFloatFormat;

constexpr std::array<Format, 6> kFormats = {{
    {DataType::kFloat8e4m3fn, 4, 3, 7, true, false, false, 0x7e, 0x7f},
    {DataType::kFloat8e4m3fnuz, 4, 3, 8, true, false, true, 0x7f, 0x80},
    {DataType::kFloat8e5m2, 5, 2, 15, true, true, false, 0x7b, 0x7f},
    {DataType::kFloat8e5m2fnuz, 5, 2, 16, true, false, true, 0x7f, 0x80},
    {DataType::kFloat4e2m1, 2, 1, 1, true, false, false, 0x7, 0},
    {DataType::kFloat8e8m0, 8, 0, 127, false, false, false, 0xfe, 0xff},
}};

double magnitude_of(const Format& f, unsigned magnitude) {
  const int exponent = static_cast<int>(magnitude >> f.mantissa_bits);
  const int mantissa = static_cast<int>(magnitude & ((1u << f.mantissa_bits) - 1));
  if (f.type == DataType::kFloat8e8m0) return std::ldexp(1.0, exponent - f.bias);
  if (exponent == 0) return std::ldexp(mantissa, 1 - f.bias - f.mantissa_bits);
  return std::ldexp((1 << f.mantissa_bits) + mantissa, exponent - f.bias - f.mantissa_bits);
}

}  // namespace

bool is_small_float(DataType type) {
  return std::any_of(kFormats.begin(), kFormats.end(), [&](const Format& f) { return f.type == type; });
}

const SmallFloatFormat& small_float_format(DataType type) {
  for (const Format& f : kFormats)
    if (f.type == type) return f;
  throw Error(ErrorCode::kUsage, std::string(name(type)) + " is not a type of 8 bits or less");
}

double decode_small_float(DataType type, std::uint8_t bits) {
  const Format& f = small_float_format(type);
  const unsigned sign_bit = f.has_sign ? 1u << (f.exponent_bits + f.mantissa_bits) : 0;
  const unsigned magnitude = bits & (f.has_sign ? sign_bit - 1 : 0xffu);
  const bool negative = (bits & sign_bit) != 0;
  if (f.negative_zero_is_nan && negative && magnitude == 0) return std::numeric_limits<double>::quiet_NaN();
  if (f.has_infinity && magnitude == f.largest + 1u) return negative ? -HUGE_VAL : HUGE_VAL;
  if (magnitude > f.largest) return std::numeric_limits<double>::quiet_NaN();
  const double value = magnitude_of(f, magnitude);
  return negative ? -value : value;
}

std::uint8_t encode_small_float(DataType type, double value) {
  const Format& f = small_float_format(type);
  if (std::isnan(value)) return f.nan;
  if (f.type == DataType::kFloat8e8m0) {
    if (!(value > 0) || std::isinf(value)) return value == 0 ? 0 : f.nan;
    int exponent = 0;
    const double mantissa = std::frexp(value, &exponent);  // value = mantissa * 2^exponent, 0.5 <= mantissa < 1
    const int power = mantissa == 0.5 ? exponent - 1 : exponent;
    return static_cast<std::uint8_t>(std::clamp(power + f.bias, 0, static_cast<int>(f.largest)));
  }
  const unsigned sign_bit = 1u << (f.exponent_bits + f.mantissa_bits);
  const unsigned sign = std::signbit(value) ? sign_bit : 0;
  const double magnitude = std::fabs(value);
  unsigned low = 0, high = f.largest;  // of the two neighbours, the lower one
  while (low < high) {
    const unsigned middle = (low + high + 1) / 2;
    if (magnitude_of(f, middle) <= magnitude)
      low = middle;
    else
      high = middle - 1;
  }
  const double below = magnitude_of(f, low), above = magnitude_of(f, low + 1);
  const double rest = magnitude - below, half = (above - below) / 2;
  const unsigned rounded = rest > half || (rest == half && (low & 1) != 0) ? low + 1 : low;
  if (rounded > f.largest) {
    if (f.has_infinity) return static_cast<std::uint8_t>(sign | rounded);
    if (f.nan == 0) return static_cast<std::uint8_t>(sign | f.largest);
    return f.nan;
  }
  if (rounded == 0 && f.negative_zero_is_nan) return 0;
  return static_cast<std::uint8_t>(sign | rounded);
}

double largest_small_float(DataType type) {
  const Format& f = small_float_format(type);
  return magnitude_of(f, f.largest);
}

}  // namespace rewright
