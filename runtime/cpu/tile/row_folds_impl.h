// Reductions of rows, for the loops of loops.h: included by loops_impl.h. Everything has internal linkage.
#pragma once

#include <cstring>
#include <type_traits>
#include <utility>
#if REWRIGHT_VECTOR_BYTES > 16
#include <immintrin.h>
#endif

#include "runtime/cpu/tile/loops.h"

namespace rewright::cpu {
namespace {

// Sums, differences and products of these wrap, and have the bits of the narrower integers' ones.
template <class T>
using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

// Reductions keep kLanes partial results, so that they vectorize and do not depend on the instruction set.
constexpr Count kLanes = 32;
// The lanes combined by halves, each a loop of known length.
template <Count kWidth, class T, class F>
inline void fold_lanes(T* lanes, F f) {
#pragma GCC ivdep
  for (Count l = 0; l < kWidth; ++l) lanes[l] = f(lanes[l], lanes[l + kWidth]);
  if constexpr (kWidth > 1) fold_lanes<kWidth / 2>(lanes, f);
}
// The last elements, which fill no lanes, are read together with elements before them, which do not count again.
template <class T, class F>
inline T fold(const T* a, Count n, T identity, F f) {
  T lanes[kLanes];
  for (T& lane : lanes) lane = identity;
  Count i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (Count l = 0; l < kLanes; ++l) lanes[l] = f(lanes[l], a[i + l]);
  if (i > 0 && i < n) {
    const T* const last = a + n - kLanes;
    const auto counted = static_cast<std::int32_t>(kLanes - (n - i));
    for (std::int32_t l = 0; l < kLanes; ++l) lanes[l] = f(lanes[l], l < counted ? identity : last[l]);
  } else {
    for (Count l = 0; i < n; ++i, ++l) lanes[l] = f(lanes[l], a[i]);
  }
  fold_lanes<kLanes / 2>(lanes, f);
  return lanes[0];
}
// Two values combined; the identity may depend on the first element.
struct Plus {
  template <class T>
  static T identity(T) {
    return T{};
  }
  template <class T>
  T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T>)
      return T(Bits<T>(x) + Bits<T>(y));
    else
      return x + y;
  }
};
struct Times {
  template <class T>
  static T identity(T) {
    return T{} + 1;
  }
  template <class T>
  T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T>)
      return T(Bits<T>(x) * Bits<T>(y));
    else
      return x * y;
  }
};
template <bool kLargest>
struct Extreme {
  template <class T>
  static T identity(T first) {
    return first;
  }
  // NaN if one of them is.
  template <class T>
  T operator()(T x, T y) const {
    if constexpr (std::is_arithmetic_v<T>)
      return (kLargest ? x > y : x < y) || x != x ? x : y;  // chains of these are faster so
    else if constexpr (kLargest)
      return ((x > y) | (x != x)) ? x : y;
    else
      return ((x < y) | (x != x)) ? x : y;
  }
};
using Larger = Extreme<true>;
using Smaller = Extreme<false>;
// Maxima and minima may count an element twice: the last elements are a whole vector too, which overlaps those before it.
template <class F>
constexpr bool kIsExtreme = std::is_same_v<F, Larger> || std::is_same_v<F, Smaller>;
template <class T, Count kSize>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kSize * sizeof(T))));
};
template <class T, Count kWidth>
constexpr Count kPartSize = REWRIGHT_VECTOR_BYTES / sizeof(T) < kWidth ? REWRIGHT_VECTOR_BYTES / sizeof(T) : kWidth;
// Nothing is looked for among the elements.
struct NothingSeen {
  template <class V>
  void see(V, V) {}
  void add(NothingSeen) {}
};
// The processor's maxima and minima, of which the second operand is the result if one is NaN; NaN is looked for apart.
#if REWRIGHT_VECTOR_BYTES == 64
class NaNSeen {
 public:
  template <class V>
  void see(V a, V b) {
    if constexpr (sizeof(a[0]) == sizeof(float))
      mask_ |= _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_UNORD_Q);
    else
      mask_ |= _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_UNORD_Q);
  }
  void add(NaNSeen other) { mask_ |= other.mask_; }
  bool any() const { return mask_ != 0; }

 private:
  unsigned mask_ = 0;
};
template <bool kLargest, class V>
inline V numbers_extreme(V x, V y) {
  constexpr __mmask16 kAll = 0xFFFF;  // without masks, which cost nothing, GCC warns of its own headers
  constexpr __mmask8 kAllDoubles = 0xFF;
  if constexpr (sizeof(x[0]) == sizeof(float))
    return kLargest ? (V)_mm512_maskz_max_ps(kAll, (__m512)x, (__m512)y) : (V)_mm512_maskz_min_ps(kAll, (__m512)x, (__m512)y);
  else
    return kLargest ? (V)_mm512_maskz_max_pd(kAllDoubles, (__m512d)x, (__m512d)y)
                    : (V)_mm512_maskz_min_pd(kAllDoubles, (__m512d)x, (__m512d)y);
}
#elif REWRIGHT_VECTOR_BYTES == 32
class NaNSeen {
 public:
  template <class V>
  void see(V a, V b) {
    if constexpr (sizeof(a[0]) == sizeof(float))
      mask_ = _mm256_or_ps(mask_, _mm256_cmp_ps((__m256)a, (__m256)b, _CMP_UNORD_Q));
    else
      mask_ = _mm256_or_ps(mask_, (__m256)_mm256_cmp_pd((__m256d)a, (__m256d)b, _CMP_UNORD_Q));
  }
  void add(NaNSeen other) { mask_ = _mm256_or_ps(mask_, other.mask_); }
  bool any() const { return _mm256_movemask_ps(mask_) != 0; }

 private:
  __m256 mask_ = {};
};
template <bool kLargest, class V>
inline V numbers_extreme(V x, V y) {
  if constexpr (sizeof(x[0]) == sizeof(float))
    return kLargest ? (V)_mm256_max_ps((__m256)x, (__m256)y) : (V)_mm256_min_ps((__m256)x, (__m256)y);
  else
    return kLargest ? (V)_mm256_max_pd((__m256d)x, (__m256d)y) : (V)_mm256_min_pd((__m256d)x, (__m256d)y);
}
#endif
#if REWRIGHT_VECTOR_BYTES > 16
template <class T>
constexpr bool kHasNumbersExtreme = std::is_floating_point_v<T>;
// F, where nothing is NaN.
template <class F>
struct OfNumbers {
  template <class V>
  V operator()(V x, V y) const {
    return numbers_extreme<std::is_same_v<F, Larger>>(x, y);
  }
};
#endif

// The lanes of a row with n >= kWidth elements, combined by halves until they are one vector. `seen` sees all elements.
template <Count kWidth, class T, class F, class Seen>
inline auto fold_to_vector(const T* a, Count n, Seen& seen) {
  constexpr Count kSize = kPartSize<T, kWidth>, kParts = kWidth / kSize;
  constexpr F f{};
  using V = typename VectorOf<T, kSize>::Type;
  const auto part = [](const T* s, Count p) {  // arrays that memcpy writes do not stay in registers
    V v;
    std::memcpy(&v, s + p * kSize, sizeof v);
    return v;
  };
  Seen own;
  V lanes[kParts];
#pragma GCC unroll 16
  for (Count p = 0; p < kParts; ++p) lanes[p] = part(a, p);
#pragma GCC unroll 16
  for (Count p = 0; p < kParts; p += 2) own.see(lanes[p], lanes[p + 1 < kParts ? p + 1 : p]);
  const auto count = [&](const T* s) {
#pragma GCC unroll 16
    for (Count p = 0; p < kParts; p += 2) {
      const V v = part(s, p), next = part(s, p + 1 < kParts ? p + 1 : p);
      lanes[p] = f(lanes[p], v);
      if (p + 1 < kParts) lanes[p + 1] = f(lanes[p + 1], next);
      own.see(v, next);
    }
  };
  Count i = kWidth;
  for (; i + kWidth <= n; i += kWidth) count(a + i);
  if (i < n) count(a + n - kWidth);
  for (Count parts = kWidth / kSize / 2; parts > 0; parts /= 2)
    for (Count p = 0; p < parts; ++p) lanes[p] = f(lanes[p], lanes[p + parts]);
  seen.add(own);
  return lanes[0];
}
// Blocks of 2 * kBlock elements, of x and then of y: the first halves of all combined with the second ones.
template <Count kBlock, class F, class V, Count... kElement>
inline V fold_blocks(V x, V y, std::integer_sequence<Count, kElement...>) {
  return F()(__builtin_shufflevector(x, y, (kElement / kBlock * kBlock + kElement)...),
             __builtin_shufflevector(x, y, (kElement / kBlock * kBlock + kElement + kBlock)...));
}
// kRows rows as one vector, in which each has a block of the same size.
template <Count kRows, Count kWidth, class T, class F, class Seen>
inline auto fold_to_blocks(const T* a, Count n, Seen& seen) {
  if constexpr (kRows == 1) {
    return fold_to_vector<kWidth, T, F>(a, n, seen);
  } else {
    constexpr Count kSize = kPartSize<T, kWidth>;
    return fold_blocks<kSize / kRows, F>(fold_to_blocks<kRows / 2, kWidth, T, F>(a, n, seen),
                                         fold_to_blocks<kRows / 2, kWidth, T, F>(a + kRows / 2 * n, n, seen),
                                         std::make_integer_sequence<Count, kSize>());
  }
}
template <class F, Count kHalf, class V, Count kSize>
inline V fold_vector(V v, std::integral_constant<Count, kSize> size) {
  if constexpr (kHalf == 0) {
    return v;
  } else {
    return fold_vector<F, kHalf / 2>(fold_blocks<kHalf, F>(v, v, std::make_integer_sequence<Count, kSize>()), size);
  }
}
template <Count kWidth, class T, class F>
T fold_extreme(const T* a, Count n) {
  constexpr std::integral_constant<Count, kPartSize<T, kWidth>> kSize;
#if REWRIGHT_VECTOR_BYTES > 16
  if constexpr (kHasNumbersExtreme<T>) {
    NaNSeen seen;
    const auto v = fold_to_vector<kWidth, T, OfNumbers<F>>(a, n, seen);
    if (!seen.any()) return fold_vector<OfNumbers<F>, kSize / 2>(v, kSize)[0];
  }
#endif
  NothingSeen seen;
  return fold_vector<F, kSize / 2>(fold_to_vector<kWidth, T, F>(a, n, seen), kSize)[0];
}
template <class T, class F>
T fold_row(const T* a, Count n) {
  if constexpr (kIsExtreme<F>) {
    if (n >= kLanes) return fold_extreme<kLanes, T, F>(a, n);
    if (n > kLanes / 2) return fold_extreme<kLanes / 2, T, F>(a, n);
  }
  return fold(a, n, F::identity(n > 0 ? a[0] : T()), F());
}

// Rows that fill no more than kColumns of the lanes that `fold` has, as many at once as a vector has elements.
template <class T>
constexpr Count kRowsAtOnce = REWRIGHT_VECTOR_BYTES / sizeof(T);
template <Count kColumns, class T, class F>
inline void fold_some_rows(T* d, const T* a, Count n) {
  typedef T Rows __attribute__((vector_size(REWRIGHT_VECTOR_BYTES)));
  constexpr F f{};
  const auto column = [&](Count c) {
    Rows v{};
    for (Count r = 0; r < kRowsAtOnce<T>; ++r) v[r] = a[r * n + c];
    return v;
  };
  Rows lanes[kColumns];
  const Rows identity = F::identity(column(0));
  for (Count c = 0; c < kColumns; ++c) lanes[c] = c < n ? f(f(identity, column(c)), identity) : identity;
  for (Count width = kColumns / 2; width > 0; width /= 2)
    for (Count c = 0; c < width; ++c) lanes[c] = f(lanes[c], lanes[c + width]);
  std::memcpy(d, lanes, sizeof(Rows));
}
template <Count kWidth, class T, class F>
void fold_some_extremes(T* d, const T* a, Count n) {
  constexpr Count kSize = kPartSize<T, kWidth>;
  for (Count r = 0; r < kRowsAtOnce<T>; r += kSize) {
#if REWRIGHT_VECTOR_BYTES > 16
    if constexpr (kHasNumbersExtreme<T>) {
      NaNSeen seen;
      const auto v = fold_to_blocks<kSize, kWidth, T, OfNumbers<F>>(a + r * n, n, seen);
      std::memcpy(d + r, &v, sizeof v);
      if (!seen.any()) continue;
    }
#endif
    NothingSeen seen;
    const auto v = fold_to_blocks<kSize, kWidth, T, F>(a + r * n, n, seen);
    std::memcpy(d + r, &v, sizeof v);
  }
}
template <class T, class F>
void fold_rows(T* d, const T* a, Count rows, Count n) {
  auto some = n <= 0    ? nullptr
              : n <= 4  ? fold_some_rows<4, T, F>
              : n <= 8  ? fold_some_rows<8, T, F>
              : n <= 16 ? fold_some_rows<16, T, F>
                        : nullptr;
  if constexpr (kIsExtreme<F>)
    if (n > kLanes / 2) some = n < kLanes ? fold_some_extremes<kLanes / 2, T, F> : fold_some_extremes<kLanes, T, F>;
  Count r = 0;
  if (some != nullptr)
    for (; r + kRowsAtOnce<T> <= rows; r += kRowsAtOnce<T>) some(d + r, a + r * n, n);
  for (; r < rows; ++r) d[r] = fold_row<T, F>(a + r * n, n);
}

}  // namespace
}  // namespace rewright::cpu
