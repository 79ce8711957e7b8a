// Linear functions and statistics of rows of floats, one table for each instruction set.
#pragma once

#include <cstdint>

#include "runtime/cpu/base/isa.h"

namespace rewright::cpu {

// Linear functions and sums of rows of floats or doubles.
template <class T>
struct RowSums {
  using Count = std::int64_t;
  struct Scaling {
    T center, factor, shift, low, high;
  };
  // d[c] = (s[c] - center) * factor + shift, not below `low`, not above `high`; NaN stays NaN
  void (*scale)(T* d, const T* s, Count n, const Scaling& by);
  // The sum of a row less `center`, of its squares, and of its magnitudes.
  T (*sum)(const T* s, Count n, T center);
  T (*sum_of_squares)(const T* s, Count n, T center);
  T (*sum_of_magnitudes)(const T* s, Count n, T center);
};

struct ScalingLoops : RowSums<float> {
  // The table for each instruction set; loops_for<ScalingLoops>(isa) chooses.
  static const ScalingLoops &baseline(), &avx2(), &avx512();

  using Count = std::int64_t;
  RowSums<double> of_doubles;
  void (*scale_uint8)(float* d, const std::uint8_t* s, Count n, const Scaling& by);
  void (*scale_int8)(float* d, const std::int8_t* s, Count n, const Scaling& by);
  // Rows of n elements, each row by its own numbers.
  struct RowScalings {
    const float *center, *factor, *shift;
    float low, high;
  };
  void (*scale_rows)(float* d, const float* s, Count rows, Count n, const RowScalings& by);
  void (*scale_uint8_rows)(float* d, const std::uint8_t* s, Count rows, Count n, const RowScalings& by);
  void (*scale_int8_rows)(float* d, const std::int8_t* s, Count rows, Count n, const RowScalings& by);
  // d[c] = s[c], or s[c] * slope where s[c] < 0
  void (*two_slopes)(float* d, const float* s, Count n, float slope);
  // The least and the largest of a row and of what is there; both NaN if one is.
  void (*extremes)(const float* s, Count n, float* least, float* largest);
  // d[c] = s[c] / scale, rounded to even, plus zero, within the bounds of an integer of 8 bits; NaN gives 0
  struct Quantization {
    float scale, zero, low, high;
  };
  void (*quantize)(std::uint8_t* d, const float* s, Count n, const Quantization& by);
  // d[c] = 1 where s[c] without its first bit is equal to `bound`, or if `above` is above it; else 0. Elements are the bits of
  // reals: with the bits of infinity as the bound these are the infinite ones, or NaN.
  void (*compare_bits_16)(std::uint8_t* d, const std::uint16_t* s, Count n, std::uint16_t bound, bool above);
  void (*compare_bits_32)(std::uint8_t* d, const std::uint32_t* s, Count n, std::uint32_t bound, bool above);
  void (*compare_bits_64)(std::uint8_t* d, const std::uint64_t* s, Count n, std::uint64_t bound, bool above);
};

template <class T>
const RowSums<T>& row_sums(Isa isa) {
  const auto& loops = loops_for<ScalingLoops>(isa);
  if constexpr (sizeof(T) == sizeof(float))
    return loops;
  else
    return loops.of_doubles;
}

}  // namespace rewright::cpu
