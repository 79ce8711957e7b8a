// Inner loops of float products, one table for each instruction set.
//
// The right operand is packed: its columns are divided into panels of several vectors' width, and a panel stores its rows
// consecutively, so that a product reads it sequentially. The left operand is read in place. Strides are in elements.
#pragma once

#include <cstdint>

#include "runtime/cpu/base/isa.h"

namespace rewright::cpu {

// y[r, c] = start[r, c] + sum(k) a[r, k] panel[k, c] for all columns of the panel. An element's sum runs through k in ascending
// order for any number of rows.
struct ProductBlock {
  using Count = std::int64_t;
  const float* a = nullptr;
  Count a_rows = 0, a_columns = 1;
  Count depth = 0;
  const float* panel = nullptr;
  // Instead of `panel`, if not null: its elements in 16 bits, the upper ones of floats whose others are zero
  // (ProductLoops::widen).
  const std::uint16_t* short_panel = nullptr;
  const float* start = nullptr;  // null: zeros. With stride 0, the same for all rows
  Count start_stride = 0;
  float* y = nullptr;
  Count y_stride = 0;
  // Memory that is needed soon: for each k a line or two are prefetched, this many bytes after the last. Null: rows of the
  // panel itself, stream_ahead bytes further on.
  const char* ahead = nullptr;
  Count ahead_step = 0;
};

// Functions that may follow a product.
enum class RowFunction {
  kRelu,  // below 0: alpha x
  kClip,  // to alpha .. beta
  kLinear,
  kAbsolute,
  kLogistic,
  kSwish,
  kHardSigmoid,
  kHardSwish,
  kElu,  // below 0: alpha (exp(x) - 1)
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
  Count most_rows[kMostVectors + 1];  // of a block, by the vectors in a panel's row; 0: no such blocks
  void (*multiply)(const ProductBlock& block, Count rows, Count vectors);
  // One row times several panels at once: the sums of a single one would wait for each other. Each panel begins `panel_floats`
  // after the one before it, and its columns of start and y follow that one's. The same bits as one by one; of floats it
  // prefetches nothing.
  void (*multiply_row)(const ProductBlock& block, Count vectors, Count panel_floats);
  Count row_panels[kMostVectors + 1];  // their number, by the vectors in a panel's row
  // Rows of a panel in 16 bits, as floats. Of two vectors that are neighbours in a row, the elements at one place are the lower
  // and the upper half of a word; a last vector without a neighbour has its elements one after the other.
  void (*widen)(float* to, const std::uint16_t* from, Count rows, Count vectors);

  // y[r, c] = f(y[r, c]), r < rows, c < n. NaN stays NaN. Errors are below 4e-7 of the result, or 1.2e-6 of an argument of at
  // most 1.
  void (*apply)(RowFunction f, float alpha, float beta, float* y, Count stride, Count rows, Count n);
  // y[r, c] += x[r, c]
  void (*add)(float* y, Count stride, const float* x, Count x_stride, Count rows, Count n);

  // d[r * d_stride + c] = s[r + c * s_stride], r < rows, c < columns
  void (*transpose)(float* d, Count d_stride, const float* s, Count s_stride, Count rows, Count columns);

  // A softmax in parts: updates `*largest` with the row's n scores, and replaces the row by exp(score - largest); returns its
  // sum: NaN if a score is NaN. If all scores are minus infinity, the exponentials are 0.
  float (*exponentials)(float* row, Count n, float* largest);
  void (*scale)(float* y, Count n, float factor);

  // The softmax of a row of n numbers.
  void (*softmax)(float* y, const float* x, Count n);
  void (*log_softmax)(float* y, const float* x, Count n);
  // The softmax of columns of n numbers: y[r * stride + c] for c < columns.
  void (*softmax_columns)(float* y, const float* x, Count n, Count stride, Count columns, bool logarithm);
  // (x - mean) / sqrt(mean square of it + epsilon) * scale + shift; if not `centered` the mean is 0. scale and shift may be
  // null.
  void (*normalize)(float* y, const float* x, Count n, bool centered, float epsilon, const float* scale, const float* shift);
};

}  // namespace rewright::cpu
