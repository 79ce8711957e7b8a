// The difference between two tensors of the same type and sizes.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "expressions/tensor.h"

namespace rewright {

// Half of the distance from 1 to the next larger value of a floating-point type of 16 bits or more: the relative error of
// rounding to it. 0 for all other types.
inline double unit_roundoff(DataType type) {
  switch (type) {
    case DataType::kDouble:
      return 0x1p-53;
    case DataType::kFloat:
      return 0x1p-24;
    case DataType::kHalf:
      return 0x1p-11;
    case DataType::kBfloat16:
      return 0x1p-8;
    default:
      return 0;
  }
}

struct Difference {
  double absolute = 0;  // the largest of an element; infinite where only one of the two is finite
  double scale = 0;     // the largest finite magnitude among the expected elements
  bool within = true;   // is every element within absolute + relative * |expected|?

  double relative() const { return absolute == 0 ? 0 : absolute / std::max(scale, 1e-30); }
};

// NaN equals NaN, and an infinity equals itself. Integers are compared exactly, also beyond 2^53. Strings that differ have an
// infinite difference.
inline Difference difference(const Tensor& expected, const Tensor& found, double relative = 0, double absolute = 0) {
  if (expected.type() == DataType::kString) {
    const bool same = expected == found;
    return {same ? 0 : HUGE_VAL, 1, same};
  }
  const std::vector<double> a = expected.reals(), b = found.reals();
  const bool whole = is_integer(expected.type()) && is_integer(found.type());
  const std::vector<std::int64_t> exact_a = whole ? expected.integers() : std::vector<std::int64_t>();
  const std::vector<std::int64_t> exact_b = whole ? found.integers() : std::vector<std::int64_t>();
  Difference result;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(a[i])) result.scale = std::max(result.scale, std::abs(a[i]));
    const bool same = whole ? exact_a[i] == exact_b[i] : a[i] == b[i];
    if (same || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double d = whole ? std::max(std::abs(a[i] - b[i]), 1.0) : std::abs(a[i] - b[i]);
    result.absolute = std::isfinite(d) ? std::max(result.absolute, d) : HUGE_VAL;
    if (!(d <= absolute + relative * std::abs(a[i])) || std::isinf(a[i])) result.within = false;
  }
  return result;
}

}  // namespace rewright
