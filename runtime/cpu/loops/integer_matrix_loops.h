// Inner loops of products of matrices of integers of 32 and 64 bits, one table for each instruction set. Sums wrap, so signed
// and unsigned elements have the same loops.
#pragma once

#include <cstdint>

#include "runtime/cpu/base/isa.h"

namespace rewright::cpu {

template <class T>
struct MatrixLoops {
  using Count = std::int64_t;
  static constexpr Count kFewRows = 2;  // which are multiplied with a wide panel

  Count columns, wide_columns;  // of a panel; a wide one is for kFewRows rows or less
  // y[r * y_row + c] = sum(k < depth) a[r * a_row + k] * b[k * b_row + c], c < width, where width is at most `columns`, or with
  // kFewRows rows at most `wide_columns`; added to y if `add`. b has `columns` (`wide_columns` if width is more) columns to
  // read.
  void (*multiply)(T* y, Count y_row, const T* a, Count a_row, Count rows, const T* b, Count b_row, Count depth, Count width,
                   bool add);
  // sum(k < n) a[k] * b[k]
  T (*dot)(const T* a, const T* b, Count n);
};

struct IntegerMatrixLoops {
  // The table for each instruction set; loops_for<IntegerMatrixLoops>(isa) chooses.
  static const IntegerMatrixLoops &baseline(), &avx2(), &avx512();

  MatrixLoops<std::uint32_t> of_32;
  MatrixLoops<std::uint64_t> of_64;
};

template <class T>
const MatrixLoops<T>& matrix_loops(Isa isa) {
  const auto& loops = loops_for<IntegerMatrixLoops>(isa);
  if constexpr (sizeof(T) == sizeof(std::uint32_t))
    return loops.of_32;
  else
    return loops.of_64;
}

}  // namespace rewright::cpu
