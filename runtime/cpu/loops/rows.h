// Loops over rows of floats for our own kernels, one table for each instruction set.
//
// Strides are in elements. NaN stays NaN, and subnormal numbers are kept unless said otherwise.
#pragma once

#include <cstdint>

#include "runtime/cpu/base/isa.h"

namespace rewright::cpu {

struct RowLoops {
  // The table for each instruction set; loops_for<RowLoops>(isa) chooses.
  static const RowLoops &baseline(), &avx2(), &avx512();

  using Count = std::int64_t;
  using Unary = void (*)(float* d, const float* a, Count n);
  // a * sigmoid(a), with an error below 4 units in the last place; -0 from -88.4 down, where it is above -1e-36.
  Unary swish;
  // log(1 + exp(a)), with an error below 8 units in the last place; 0 from -87.7 down.
  Unary softplus;
  // a * tanh(log(1 + exp(a))), with an error below 12 units in the last place; -0 from -87.7 down.
  Unary mish;
  // 0.5 a (1 + erf(a / sqrt(2))), and by tanh(sqrt(2 / pi) (a + 0.044715 a^3)) in place of erf; with an error below 1e-6 of the
  // larger of |a| and the result.
  Unary gelu, gelu_tanh;

  // d[r, c] = s[r, c]
  void (*copy)(float* d, Count d_stride, const float* s, Count s_stride, Count rows, Count n);
  // d[r, c] = s[r, c] * scale[c] + shift[c], not below `low`, not above `high`
  void (*scale_columns)(float* d, Count d_stride, const float* s, Count s_stride, Count rows, Count n, const float* scale,
                        const float* shift, float low, float high);
  // d[c] = s[c] * scale + shift, within the bounds
  void (*scale_row)(float* d, const float* s, Count n, float scale, float shift, float low, float high);

  // Over a window: s[z * slice_stride + r * row_stride + q * column_stride + c] for z < slices, r < rows and q < columns, for
  // each c < n.
  struct Window {
    Count rows, row_stride, columns, column_stride, slices = 1, slice_stride = 0;
  };
  // Applied to the result: + addend[c] (null: zeros), then clamped to `low` and `high`.
  struct Ending {
    const float* addend;
    float low, high;
  };
  void (*window_maximum)(float* d, const float* s, const Window& window, Count n,
                         const Ending& ending);  // for an empty window: -infinity
  void (*window_sum)(float* d, const float* s, const Window& window, Count n, float factor, const Ending& ending);

  // Over the windows of a row of results: d[q] = maximum, or sum times factor[q], of s[t][q] for t < taps, for each q < n. taps
  // >= 1; null factors are ones. d overlaps none of s[t].
  void (*taps_maximum)(float* d, const float* const* s, Count taps, Count n);
  void (*taps_sum)(float* d, const float* const* s, Count taps, Count n, const float* factor);
  // Short windows of an image: for each row p < rows of results and q < n
  //   y[p * n + q] = maximum, or sum times factors[counts[p]][q], of x[(first[p] + r * apart) * size + q * stride + t - before]
  // for r < counts[p] and t < taps, the rows first; elements outside of a row are -infinity or zeros. 1 to 3 taps, a stride of
  // 1 or 2, counts from 1. Null: without vectors that have masks.
  struct ShortWindows {
    const float* x;
    const Count *first, *counts;
    Count apart, size, taps, stride, before, rows, n;
    const float* const* factors;  // null: maxima
  };
  void (*short_windows)(float* y, const ShortWindows& windows);
  // Windows of rows, for each result q < columns of each row p < rows of each output o < outputs:
  //   y[o * plane + p * columns + q] = max(low, min(high, bias[o] + addend[o * plane + p * columns + q] + sum over t < taps of
  //                                                       weights[o * taps + t] * x[p * row_stride + offsets[t] + q]))
  // Up to four vectors behind the last element must exist; they are not used.
  struct Windows {
    const float* x;
    Count row_stride;
    const Count* offsets;
    const float* weights;
    Count taps;
    float* y;
    const float* addend;  // null: zeros
    Count plane, outputs, rows, columns;
    const float* bias;
    float low, high;
  };
  void (*window_products)(const Windows& windows);
  // Rows of `width` elements, not below `low`, with zeros around them from which `before` come first, their even and odd
  // elements apart: d[r * d_stride + p * n + i] is element 2 * i + p of row r, p < 2 and i < n. Null: without vectors that have
  // masks.
  void (*separate_padded)(float* d, Count d_stride, const float* s, Count rows, Count width, Count before, Count n, float low);
  // d[p * d_stride + i] = s[i * step + p] for p < step and i < n
  void (*separate)(float* d, Count d_stride, const float* s, Count step, Count n);

  // n times `peak_operations` multiply-adds in registers: the processor's peak rate.
  float (*peak)(float x, Count n);
  Count peak_operations;
};

}  // namespace rewright::cpu
