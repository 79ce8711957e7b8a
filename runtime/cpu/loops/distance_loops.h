// Inner loops of distances between rows, one table for each instruction set.
#pragma once

#include <cstdint>

#include "runtime/cpu/base/isa.h"

namespace rewright::cpu {

struct DistanceLoops {
  // The table for each instruction set; loops_for<DistanceLoops>(isa) chooses.
  static const DistanceLoops &baseline(), &avx2(), &avx512();

  using Count = std::int64_t;
  static constexpr Count kColumns = 32;  // of a panel

  // y[r * y_stride + c] = sum(k < depth) (a[r * a_stride + k * a_step] - panel[k * kColumns + c])^2, c < columns <= kColumns
  template <class T>
  using Squares = void (*)(const T* a, Count rows, Count a_stride, Count a_step, const T* panel, Count depth, Count columns,
                           T* y, Count y_stride);
  Squares<float> squares;
  Squares<double> squares_of_doubles;
};

}  // namespace rewright::cpu
