// Floating-point types of 8 bits and less: float8 (four kinds and a scale), float4.
#pragma once

#include <cstdint>

#include "expressions/data_type.h"

namespace rewright {

// The layout of such a type: how its bits encode numbers.
struct SmallFloatFormat {
  DataType type;
  int exponent_bits, mantissa_bits, bias;
  bool has_sign, has_infinity;
  bool negative_zero_is_nan;  // the only NaN; the "uz" (unsigned zero) types
  std::uint8_t largest;       // bits of the largest finite value
  std::uint8_t nan;           // 0: there is none
};

bool is_small_float(DataType type);
const SmallFloatFormat& small_float_format(DataType type);  // throws Error(kUsage) for another type

double decode_small_float(DataType type, std::uint8_t bits);
// Rounds to the nearest value, ties to even. Values beyond the largest become infinite, or NaN if the type has no infinity;
// float4, which has neither, saturates. The scale type float8e8m0 rounds up to a power of two.
std::uint8_t encode_small_float(DataType type, double value);
// The largest finite value.
double largest_small_float(DataType type);

}  // namespace rewright
