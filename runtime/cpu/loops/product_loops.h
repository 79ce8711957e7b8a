// The inner loops of products of floats, one table for each instruction set.
//
// The right operand is packed: its columns are cut into panels of some vectors' width, and a panel holds its rows one after the
// other, so that a product reads it from its first byte to its last. The left operand is read where it lies. Strides are in
// elements.
#pragma once

#include <cstdint>

#include "runtime/cpu/base/isa.h"

namespace rewright::cpu {

// y[r, c] = start[r, c] + sum(k) a[r, k] panel[k, c] for all columns of the panel. The sum of an element runs through k in
// ascending order whatever the number of rows is.
struct ProductBlock {
  using Count = std::int64_t;
  const float* a = nullptr;
  Count a_rows = 0, a_columns = 1;
  Count depth = 0;
  const float* panel = nullptr;
  const float* start = nullptr;  // null: zeros. Repeated in all rows if its stride is 0
  Count start_stride = 0;
  float* y = nullptr;
  Count y_stride = 0;
  // A part of memory that is needed soon: one line is asked for at each k, this many bytes further on than the last.
  const char* ahead = nullptr;
  Count ahead_step = 0;
};

// Functions of a number that may follow a product.
enum class RowFunction {
  kRelu,  // below 0: alpha x
  kClip,  // to alpha .. beta
  kLinear,
  kAbsolute,
  kLogistic,
  kSwish,
  kHardSigmoid,
  kHardSwish,
  kTanh,
  kGelu,
  kGeluTanh,
};

struct ProductLoops {
  // The table for each instruction set; loops_for<ProductLoops>(isa) chooses.
  static const ProductLoops &baseline(), &avx2(), &avx512();

  using Count = std::int64_t;
  static constexpr Count kMostVectors = 4;
  Count lanes;                        // floats of a vector
  Count most_rows[kMostVectors + 1];  // of a block, by the vectors of a panel's row; 0: no such blocks
  void (*multiply)(const ProductBlock& block, Count rows, Count vectors);

  // y[r, c] = f(y[r, c]), r < rows, c < n. NaN stays NaN; errors are below 4e-7 of the result, or 1.2e-6 of an argument of up
  // to 1.
  void (*apply)(RowFunction f, float alpha, float beta, float* y, Count stride, Count rows, Count n);
  // y[r, c] += x[r, c]
  void (*add)(float* y, Count stride, const float* x, Count x_stride, Count rows, Count n);

  // d[r * d_stride + c] = s[r + c * s_stride], r < rows, c < columns
  void (*transpose)(float* d, Count d_stride, const float* s, Count s_stride, Count rows, Count columns);

  // A softmax in parts: the largest of a row's n scores and of `*largest` becomes the new largest, the row exp(score -
  // largest), whose sum is returned: NaN if a score is. Where all scores are minus infinity, the exponentials are 0.
  float (*exponentials)(float* row, Count n, float* largest);
  void (*scale)(float* y, Count n, float factor);

  // Of a row of n numbers, all at once.
  void (*softmax)(float* y, const float* x, Count n);
  void (*log_softmax)(float* y, const float* x, Count n);
  // The same of each of some columns of n numbers: y[r * stride + c] for c < columns.
  void (*softmax_columns)(float* y, const float* x, Count n, Count stride, Count columns, bool logarithm);
  // (x - mean) / sqrt(mean of its square + epsilon) * scale + shift, the mean 0 if not `centered`; scale and shift may be null.
  void (*normalize)(float* y, const float* x, Count n, bool centered, float epsilon, const float* scale, const float* shift);
};

}  // namespace rewright::cpu
