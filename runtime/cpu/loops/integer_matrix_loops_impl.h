// The loops of integer_matrix_loops.h; see rewright_loops in CMakeLists.txt.
#include "runtime/cpu/loops/integer_matrix_loops.h"

#include <algorithm>
#include <cstring>

namespace rewright::cpu {
namespace {

using Count = std::int64_t;

// A vector of elements.
template <class T>
struct Lanes {
  typedef T Type __attribute__((vector_size(REWRIGHT_VECTOR_BYTES)));
  static constexpr Count kCount = REWRIGHT_VECTOR_BYTES / sizeof(T);
};

// Rows whose sums with two vectors of columns stay in registers.
constexpr Count kMostRows = REWRIGHT_VECTOR_BYTES == 64 ? 12 : REWRIGHT_VECTOR_BYTES == 32 ? 6 : 4;
constexpr Count kVectors = 2, kWideVectors = 4;

template <class T, Count kRows, Count kWidth>
void multiply_rows(T* y, Count y_row, const T* a, Count a_row, const T* b, Count b_row, Count depth, Count width, bool add) {
  using V = typename Lanes<T>::Type;
  constexpr Count kLanes = Lanes<T>::kCount;
  V sum[kRows][kWidth] = {};
  for (Count k = 0; k < depth; ++k) {
    V of_b[kWidth];
#pragma GCC unroll 4
    for (Count i = 0; i < kWidth; ++i) std::memcpy(&of_b[i], b + k * b_row + i * kLanes, sizeof(V));
#pragma GCC unroll 12
    for (Count r = 0; r < kRows; ++r) {
      const V x = V{} + a[r * a_row + k];
#pragma GCC unroll 4
      for (Count i = 0; i < kWidth; ++i) sum[r][i] += x * of_b[i];
    }
  }
  const bool is_whole = width == kWidth * kLanes;
#pragma GCC unroll 12
  for (Count r = 0; r < kRows; ++r) {
    T* const to = y + r * y_row;
    if (is_whole) {
#pragma GCC unroll 4
      for (Count i = 0; i < kWidth; ++i) {
        V v = sum[r][i];
        if (add) {
          V before;
          std::memcpy(&before, to + i * kLanes, sizeof before);
          v += before;
        }
        std::memcpy(to + i * kLanes, &v, sizeof v);
      }
      continue;
    }
    T part[kWidth * kLanes];
    std::memcpy(part, sum[r], sizeof part);
    for (Count c = 0; c < width; ++c) to[c] = add ? to[c] + part[c] : part[c];
  }
}

// At most kRows rows.
template <class T, Count kRows, Count kWidth>
void multiply_some(T* y, Count y_row, const T* a, Count a_row, Count rows, const T* b, Count b_row, Count depth, Count width,
                   bool add) {
  if (rows == kRows) return multiply_rows<T, kRows, kWidth>(y, y_row, a, a_row, b, b_row, depth, width, add);
  if constexpr (kRows > 1) multiply_some<T, kRows - 1, kWidth>(y, y_row, a, a_row, rows, b, b_row, depth, width, add);
}

template <class T>
void multiply(T* y, Count y_row, const T* a, Count a_row, Count rows, const T* b, Count b_row, Count depth, Count width,
              bool add) {
  if (width > kVectors * Lanes<T>::kCount)
    return multiply_some<T, MatrixLoops<T>::kFewRows, kWideVectors>(y, y_row, a, a_row, rows, b, b_row, depth, width, add);
  for (Count r = 0; r < rows; r += kMostRows)
    multiply_some<T, kMostRows, kVectors>(y + r * y_row, y_row, a + r * a_row, a_row, std::min(kMostRows, rows - r), b, b_row,
                                          depth, width, add);
}

template <class T>
T dot(const T* a, const T* b, Count n) {
  using V = typename Lanes<T>::Type;
  constexpr Count kLanes = Lanes<T>::kCount, kSums = 4;
  V sum[kSums] = {};
  Count k = 0;
  for (; k + kSums * kLanes <= n; k += kSums * kLanes)
    for (Count i = 0; i < kSums; ++i) {
      V of_a, of_b;
      std::memcpy(&of_a, a + k + i * kLanes, sizeof of_a);
      std::memcpy(&of_b, b + k + i * kLanes, sizeof of_b);
      sum[i] += of_a * of_b;
    }
  sum[0] += sum[1] + sum[2] + sum[3];
  T result = 0;
  for (Count i = 0; i < kLanes; ++i) result += sum[0][i];
  for (; k < n; ++k) result += a[k] * b[k];
  return result;
}

template <class T>
constexpr MatrixLoops<T> kMatrixLoops{kVectors * Lanes<T>::kCount, kWideVectors* Lanes<T>::kCount, multiply<T>, dot<T>};

}  // namespace

const IntegerMatrixLoops& IntegerMatrixLoops::REWRIGHT_ISA() {
  static constexpr IntegerMatrixLoops loops{kMatrixLoops<std::uint32_t>, kMatrixLoops<std::uint64_t>};
  return loops;
}

}  // namespace rewright::cpu
