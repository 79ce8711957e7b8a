// Inner loops of convolutions by Fourier transforms over channels-last images; one table for each instruction set.
//
// The spectrum of a tile of size x size real numbers has size * size / 2 + 2 complex numbers (points), since the others are
// their conjugates; those of the first kinds below are scaled by 2, the last size + 2 by 4. The channels of a vector are
// transformed in parallel. Strides are in elements.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/cpu/base/isa.h"

namespace rewright::cpu {

struct FourierLoops {
  // The table for each instruction set; loops_for<FourierLoops>(isa) chooses.
  static const FourierLoops &baseline(), &avx2(), &avx512();

  using Count = std::int64_t;
  static constexpr std::array<Count, 6> kSizes{12, 16, 24, 32, 48, 64};
  static constexpr Count points(Count size) { return size * size / 2 + 2; }
  static constexpr Count first_of_scaled_by_4(Count size) { return points(size) - size - 2; }
  // Floats of scratch memory, in whole cache lines.
  Count work(Count size) const { return size * (size + 2) * lanes; }

  Count lanes;     // floats of a vector
  Count max_rows;  // tiles in a product

  // Pixel (r, q) is x[r * row_stride + q * column_stride] for rows and columns from the first up to the end, and zero
  // elsewhere. Point p is v[p * point_stride], its imaginary part `imaginary` later, padded to a whole vector.
  struct Input {
    const float* x;
    Count row_stride, column_stride, first_row, end_row, first_column, end_column;
    Count channels;  // at most a vector
    float* v;
    Count point_stride, imaginary;
    float* work;
  };
  void (*input)(Count size, const Input& input);

  // The upper left part of the inverse transform, times size * size:
  //   y[r, q] = max(low, min(high, bias + addend[r, q] + inverse[r, q]))
  struct Output {
    const float* m;  // as Input::v, unscaled
    Count point_stride, imaginary;
    float* y;
    Count row_stride, column_stride, rows, columns;
    const float* addend;  // or null
    Count addend_row_stride, addend_column_stride;
    const float* bias;  // a whole vector
    float low, high;
    Count channels;
    float* work;
  };
  void (*output)(Count size, const Output& output);

  // One point of some tiles times a vector of output channels, in complex numbers:
  //   y[r] = sum over k < length of x[r, k] * w[k]
  struct Product {
    const float* x;  // tile r is x[r * x_stride + k], its imaginary part `x_imaginary` later
    Count x_stride, x_imaginary, length;
    const float* w;  // [length][real part, imaginary part][lanes]
    float* y;
    Count y_stride, y_imaginary, rows;  // rows from 1 to max_rows
    // Memory that is needed soon: for each k one line is prefetched, this many bytes after the last. Null: none.
    const char* ahead;
    Count ahead_step;
  };
  void (*product)(const Product& product);

  // v[p] *= w[p] for points of a channel vector, both [points][real part, imaginary part][lanes].
  void (*scale)(const float* w, Count points, float* v);
};

}  // namespace rewright::cpu
