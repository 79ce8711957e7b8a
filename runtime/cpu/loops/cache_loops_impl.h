// The loops of cache_loops.h; see rewright_loops in CMakeLists.txt.
#include <algorithm>
#include <cstring>

#include "runtime/cpu/base/vectors_impl.h"
#include "runtime/cpu/loops/cache_loops.h"

namespace rewright::cpu {
namespace {

constexpr Count kRows = 4;                // queries at a time
constexpr Count kTile = kLanes * kLanes;  // floats

// Keys at a time: with their queries and sums in registers.
constexpr Count kKeys = kLanes == 16 ? 4 : 2;

// Keys and values are read by one of these.
struct Floats {
  using Element = float;
  static V lanes(const float* s) { return load(s); }
  static V some(const float* s, Count n) { return load_some(s, n); }
};
#if REWRIGHT_VECTOR_BYTES > 16
template <bool kHalves>
struct Shorts {
  using Element = std::uint16_t;
#if REWRIGHT_VECTOR_BYTES == 64
  static V widened(__m256i bits) {
    constexpr __mmask16 kAll = 0xFFFF;
    if constexpr (kHalves) return (V)_mm512_maskz_cvtph_ps(kAll, bits);
    return (V)_mm512_maskz_slli_epi32(kAll, _mm512_maskz_cvtepu16_epi32(kAll, bits), 16);
  }
  static V lanes(const std::uint16_t* s) { return widened(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(s))); }
  static V some(const std::uint16_t* s, Count n) { return widened(_mm256_maskz_loadu_epi16(lanes_below(n), s)); }
#else
  static V widened(__m128i bits) {
    if constexpr (kHalves) return (V)_mm256_cvtph_ps(bits);
    return (V)_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16);
  }
  static V lanes(const std::uint16_t* s) { return widened(_mm_loadu_si128(reinterpret_cast<const __m128i*>(s))); }
  static V some(const std::uint16_t* s, Count n) {
    std::uint16_t elements[kLanes] = {};
    std::memcpy(elements, s, static_cast<std::size_t>(n) * sizeof *s);
    return lanes(elements);
  }
#endif
};
#endif

// The lanes' parts of the scores of some queries, one a tile, with some keys, one a row of the tiles.
template <class E, Count kQueries, Count kSome>
inline void partial_scores(const float* q, const typename E::Element* k, Count k_rows, Count size, float* tiles) {
  V sum[kQueries][kSome] = {};
  Count d = 0;
  for (; d + kLanes <= size; d += kLanes) {
    V x[kSome];
#pragma GCC unroll 4
    for (Count t = 0; t < kSome; ++t) x[t] = E::lanes(k + t * k_rows + d);
#pragma GCC unroll 4
    for (Count r = 0; r < kQueries; ++r) {
      const V y = load(q + r * size + d);
#pragma GCC unroll 4
      for (Count t = 0; t < kSome; ++t) sum[r][t] += x[t] * y;
    }
  }
#pragma GCC unroll 4
  for (Count r = 0; r < kQueries; ++r)
#pragma GCC unroll 4
    for (Count t = 0; t < kSome; ++t) {
      if (d < size) sum[r][t] += E::some(k + t * k_rows + d, size - d) * load_some(q + r * size + d, size - d);
      store(tiles + r * kTile + t * kLanes, sum[r][t]);
    }
}

// Sums of the lanes of two vectors, by halves: each adds the halves of groups of lanes, those of `a` before those of `b`, in
// the order in which processors move them within quarters of vectors.
#if REWRIGHT_VECTOR_BYTES == 64
inline V add_pairs(V a, V b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29) +
         __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
}
inline V add_neighbours(V a, V b) {
  return __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
         __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
}
inline V add_quarters(V a, V b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
         __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
}
inline V add_last(V a, V b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
         __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
}
#elif REWRIGHT_VECTOR_BYTES == 32
inline V add_pairs(V a, V b) {
  return __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13) + __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
}
inline V add_neighbours(V a, V b) {
  return __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13) + __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
}
inline V add_last(V a, V b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11) + __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
}
#else
inline V add_pairs(V a, V b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7); }
inline V add_neighbours(V a, V b) {
  return __builtin_shufflevector(a, b, 0, 1, 4, 5) + __builtin_shufflevector(a, b, 2, 3, 6, 7);
}
#endif

// Lane t: the sum of the lanes of row t of a tile.
inline V lane_sums(const float* tile) {
  V x[kLanes];
#pragma GCC unroll 8
  for (Count t = 0; t < kLanes; t += 2) x[t / 2] = add_pairs(load(tile + t * kLanes), load(tile + (t + 1) * kLanes));
#pragma GCC unroll 4
  for (Count t = 0; t < kLanes / 2; t += 2) x[t / 2] = add_neighbours(x[t], x[t + 1]);
#if REWRIGHT_VECTOR_BYTES == 64
  return add_last(add_quarters(x[0], x[1]), add_quarters(x[2], x[3]));
#elif REWRIGHT_VECTOR_BYTES == 32
  return add_last(x[0], x[1]);
#else
  return x[0];
#endif
}

template <class E, Count kQueries>
void scores_of(const float* q, const typename E::Element* k, Count k_rows, Count keys, Count size, float* scores,
               Count stride) {
  alignas(64) float tiles[kQueries * kTile];
  for (Count first = 0; first < keys; first += kLanes) {
    const Count count = std::min(kLanes, keys - first);
    const auto* const at = k + first * k_rows;
    Count t = 0;
    for (; t + kKeys <= count; t += kKeys)
      partial_scores<E, kQueries, kKeys>(q, at + t * k_rows, k_rows, size, tiles + t * kLanes);
    for (; t < count; ++t) partial_scores<E, kQueries, 1>(q, at + t * k_rows, k_rows, size, tiles + t * kLanes);
#pragma GCC unroll 4
    for (Count r = 0; r < kQueries; ++r) {
      float *const tile = tiles + r * kTile, *const to = scores + r * stride + first;
      if (count == kLanes) {
        store(to, lane_sums(tile));
      } else {
        std::fill(tile + count * kLanes, tile + kTile, 0.0f);
        store_some(to, lane_sums(tile), count);
      }
    }
  }
}

template <class E>
void scores(const float* q, Count rows, const typename E::Element* k, Count k_rows, Count keys, Count size, float* result,
            Count stride) {
  for (; rows > 0; rows -= kRows, q += kRows * size, result += kRows * stride) {
    if (rows >= 4)
      scores_of<E, 4>(q, k, k_rows, keys, size, result, stride);
    else if (rows == 3)
      scores_of<E, 3>(q, k, k_rows, keys, size, result, stride);
    else if (rows == 2)
      scores_of<E, 2>(q, k, k_rows, keys, size, result, stride);
    else
      scores_of<E, 1>(q, k, k_rows, keys, size, result, stride);
  }
}

// kVectors vectors of each value; or, if not 0, `some` elements, less than a vector.
template <class E, Count kQueries, Count kVectors>
inline void add_columns(const float* p, Count stride, const typename E::Element* v, Count v_rows, Count keys, Count size,
                        float* y, Count some) {
  V sum[kQueries][kVectors] = {};
  for (Count t = 0; t < keys; ++t) {
    V x[kVectors];
#pragma GCC unroll 4
    for (Count c = 0; c < kVectors; ++c)
      x[c] = some > 0 ? E::some(v + t * v_rows, some) : E::lanes(v + t * v_rows + c * kLanes);
#pragma GCC unroll 4
    for (Count r = 0; r < kQueries; ++r) {
      const V weight = p[r * stride + t] - V{};
#pragma GCC unroll 4
      for (Count c = 0; c < kVectors; ++c) sum[r][c] += weight * x[c];
    }
  }
  for (Count r = 0; r < kQueries; ++r)
    for (Count c = 0; c < kVectors; ++c) {
      float* const to = y + r * size + c * kLanes;
      if (some > 0)
        store_some(to, load_some(to, some) + sum[r][c], some);
      else
        store(to, load(to) + sum[r][c]);
    }
}

template <class E, Count kQueries>
void add_values_of(const float* p, Count stride, const typename E::Element* v, Count v_rows, Count keys, Count size, float* y) {
  constexpr Count kVectors = kLanes == 16 || kQueries <= 2 ? 4 : kQueries == 3 ? 3 : 2;  // sums stay in registers
  Count d = 0;
  for (; d + kVectors * kLanes <= size; d += kVectors * kLanes)
    add_columns<E, kQueries, kVectors>(p, stride, v + d, v_rows, keys, size, y + d, 0);
  for (; kVectors > 2 && d + 2 * kLanes <= size; d += 2 * kLanes)
    add_columns<E, kQueries, 2>(p, stride, v + d, v_rows, keys, size, y + d, 0);
  for (; d + kLanes <= size; d += kLanes) add_columns<E, kQueries, 1>(p, stride, v + d, v_rows, keys, size, y + d, 0);
  if (d < size) add_columns<E, kQueries, 1>(p, stride, v + d, v_rows, keys, size, y + d, size - d);
}

template <class E>
void add_values(const float* p, Count stride, Count rows, const typename E::Element* v, Count v_rows, Count keys, Count size,
                float* y) {
  for (; rows > 0; rows -= kRows, p += kRows * stride, y += kRows * size) {
    if (rows >= 4)
      add_values_of<E, 4>(p, stride, v, v_rows, keys, size, y);
    else if (rows == 3)
      add_values_of<E, 3>(p, stride, v, v_rows, keys, size, y);
    else if (rows == 2)
      add_values_of<E, 2>(p, stride, v, v_rows, keys, size, y);
    else
      add_values_of<E, 1>(p, stride, v, v_rows, keys, size, y);
  }
}

void rotate(const float* x, const float* c, const float* s, Count half, Count size, bool neighbours, float factor, float* y) {
  if (neighbours) {
#pragma GCC ivdep
    for (Count i = 0; i < half; ++i) {
      const float a = x[2 * i], b = x[2 * i + 1];
      y[2 * i] = (a * c[i] - b * s[i]) * factor;
      y[2 * i + 1] = (a * s[i] + b * c[i]) * factor;
    }
  } else {
#pragma GCC ivdep
    for (Count i = 0; i < half; ++i) {
      const float a = x[i], b = x[half + i];
      y[i] = (a * c[i] - b * s[i]) * factor;
      y[half + i] = (a * s[i] + b * c[i]) * factor;
    }
  }
  for (Count i = 2 * half; i < size; ++i) y[i] = x[i] * factor;
}

#if REWRIGHT_VECTOR_BYTES > 16
constexpr CacheLoops kTable{scores<Floats>,
                            add_values<Floats>,
                            {scores<Shorts<true>>, scores<Shorts<false>>},
                            {add_values<Shorts<true>>, add_values<Shorts<false>>},
                            rotate};
#else
constexpr CacheLoops kTable{scores<Floats>, add_values<Floats>, {nullptr, nullptr}, {nullptr, nullptr}, rotate};
#endif

}  // namespace

const CacheLoops& CacheLoops::REWRIGHT_ISA() { return kTable; }

}  // namespace rewright::cpu
