// The loops of distance_loops.h; see rewright_loops in CMakeLists.txt.
#include "runtime/cpu/base/vectors_impl.h"
#include "runtime/cpu/loops/distance_loops.h"

namespace rewright::cpu {
namespace {

constexpr Count kPanel = DistanceLoops::kColumns;

// kRows rows with the first kVectors vectors of a panel.
template <Count kRows, Count kVectors>
inline void add_squares(const float* a, Count a_stride, Count a_step, const float* panel, Count depth,
                        V (&sum)[kRows][kVectors]) {
  for (Count k = 0; k < depth; ++k) {
    V b[kVectors];
#pragma GCC unroll 8
    for (Count i = 0; i < kVectors; ++i) b[i] = load(panel + k * kPanel + i * kLanes);
#pragma GCC unroll 4
    for (Count r = 0; r < kRows; ++r) {
      const V x = V{} + a[r * a_stride + k * a_step];
#pragma GCC unroll 8
      for (Count i = 0; i < kVectors; ++i) {
        const V d = x - b[i];
        sum[r][i] += d * d;
      }
    }
  }
}

template <Count kRows, Count kVectors>
void some_squares(const float* a, Count a_stride, Count a_step, const float* panel, Count depth, Count columns, float* y,
                  Count y_stride) {
  V sum[kRows][kVectors] = {};
  add_squares<kRows, kVectors>(a, a_stride, a_step, panel, depth, sum);
  for (Count r = 0; r < kRows; ++r)
    for (Count i = 0; i < kVectors && i * kLanes < columns; ++i) {
      float* const to = y + r * y_stride + i * kLanes;
      if (columns - i * kLanes >= kLanes)
        store(to, sum[r][i]);
      else
        store_some(to, sum[r][i], columns - i * kLanes);
    }
}

template <Count kVectors>
void squares_of(const float* a, Count rows, Count a_stride, Count a_step, const float* panel, Count depth, Count columns,
                float* y, Count y_stride) {
  constexpr Count kTogether = kVectors > 4 ? 1 : 2;
  Count r = 0;
  for (; r + kTogether <= rows; r += kTogether)
    some_squares<kTogether, kVectors>(a + r * a_stride, a_stride, a_step, panel, depth, columns, y + r * y_stride, y_stride);
  for (; r < rows; ++r)
    some_squares<1, kVectors>(a + r * a_stride, a_stride, a_step, panel, depth, columns, y + r * y_stride, y_stride);
}

void squares(const float* a, Count rows, Count a_stride, Count a_step, const float* panel, Count depth, Count columns, float* y,
             Count y_stride) {
  constexpr Count kAll = kPanel / kLanes;
  if (columns <= kLanes) return squares_of<1>(a, rows, a_stride, a_step, panel, depth, columns, y, y_stride);
  if (columns <= 2 * kLanes) return squares_of<2>(a, rows, a_stride, a_step, panel, depth, columns, y, y_stride);
  squares_of<kAll>(a, rows, a_stride, a_step, panel, depth, columns, y, y_stride);
}

// Rows of doubles with some columns of a panel, kVectors vectors of them; all of a result's columns are computed together.
typedef double Doubles __attribute__((vector_size(REWRIGHT_VECTOR_BYTES)));
constexpr Count kDoubles = REWRIGHT_VECTOR_BYTES / sizeof(double);
template <Count kRows, Count kVectors>
void some_squares_of_doubles(const double* a, Count a_stride, Count a_step, const double* panel, Count depth, Count columns,
                             double* y, Count y_stride) {
  Doubles sum[kRows][kVectors] = {};
  for (Count k = 0; k < depth; ++k) {
    Doubles b[kVectors];
#pragma GCC unroll 8
    for (Count i = 0; i < kVectors; ++i) std::memcpy(&b[i], panel + k * kPanel + i * kDoubles, sizeof b[i]);
#pragma GCC unroll 4
    for (Count r = 0; r < kRows; ++r) {
      const Doubles x = Doubles{} + a[r * a_stride + k * a_step];
#pragma GCC unroll 8
      for (Count i = 0; i < kVectors; ++i) {
        const Doubles d = x - b[i];
        sum[r][i] += d * d;
      }
    }
  }
  for (Count r = 0; r < kRows; ++r)
    for (Count i = 0; i < kVectors; ++i) {
      const Count left = columns - i * kDoubles;
      if (left <= 0) break;
      std::memcpy(y + r * y_stride + i * kDoubles, &sum[r][i],
                  static_cast<std::size_t>(left < kDoubles ? left : kDoubles) * sizeof(double));
    }
}
void squares_of_doubles(const double* a, Count rows, Count a_stride, Count a_step, const double* panel, Count depth,
                        Count columns, double* y, Count y_stride) {
  constexpr Count kVectors = 4, kColumns = kVectors * kDoubles;
  for (Count c = 0; c < columns; c += kColumns) {
    Count r = 0;
    for (; r + 2 <= rows; r += 2)
      some_squares_of_doubles<2, kVectors>(a + r * a_stride, a_stride, a_step, panel + c, depth, columns - c,
                                           y + r * y_stride + c, y_stride);
    for (; r < rows; ++r)
      some_squares_of_doubles<1, kVectors>(a + r * a_stride, a_stride, a_step, panel + c, depth, columns - c,
                                           y + r * y_stride + c, y_stride);
  }
}

constexpr DistanceLoops kTable{squares, squares_of_doubles};

}  // namespace

const DistanceLoops& DistanceLoops::REWRIGHT_ISA() { return kTable; }

}  // namespace rewright::cpu
