// Linear functions and statistics of rows of floats, one table for each instruction set.
#pragma once

#include <cstdint>

#include "runtime/cpu/base/isa.h"

namespace rewright::cpu {

struct ScalingLoops {
  // The table for each instruction set; loops_for<ScalingLoops>(isa) chooses.
  static const ScalingLoops &baseline(), &avx2(), &avx512();

  using Count = std::int64_t;
  struct Scaling {
    float center, factor, shift, low, high;
  };
  // d[c] = (s[c] - center) * factor + shift, not below `low`, not above `high`; NaN stays NaN
  void (*scale)(float* d, const float* s, Count n, const Scaling& by);
  void (*scale_uint8)(float* d, const std::uint8_t* s, Count n, const Scaling& by);
  void (*scale_int8)(float* d, const std::int8_t* s, Count n, const Scaling& by);
  // d[c] = s[c], or s[c] * slope where s[c] < 0
  void (*two_slopes)(float* d, const float* s, Count n, float slope);
  // The sum of a row less `center`, of its squares, and of its magnitudes.
  float (*sum)(const float* s, Count n, float center);
  float (*sum_of_squares)(const float* s, Count n, float center);
  float (*sum_of_magnitudes)(const float* s, Count n, float center);
  // The least and the largest of them and of what is there; both NaN if one is.
  void (*extremes)(const float* s, Count n, float* least, float* largest);
  // d[c] = s[c] / scale, rounded to even, plus zero, within the bounds of an integer of 8 bits; NaN gives 0
  struct Quantization {
    float scale, zero, low, high;
  };
  void (*quantize)(std::uint8_t* d, const float* s, Count n, const Quantization& by);
};

}  // namespace rewright::cpu
