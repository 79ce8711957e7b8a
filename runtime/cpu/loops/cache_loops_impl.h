// The loops of cache_loops.h; see rewright_loops in CMakeLists.txt.
#include <algorithm>

#include "runtime/cpu/base/transpose_impl.h"
#include "runtime/cpu/base/vectors_impl.h"
#include "runtime/cpu/loops/cache_loops.h"

namespace rewright::cpu {
namespace {

constexpr Count kRows = 4;                // queries at a time
constexpr Count kTile = kLanes * kLanes;  // floats

// The lanes' parts of the scores of some queries, one a tile, with some keys, one a row of the tiles.
template <Count kQueries, Count kKeys>
inline void partial_scores(const float* q, const float* k, Count k_rows, Count size, float* tiles) {
  V sum[kQueries][kKeys] = {};
  Count d = 0;
  for (; d + kLanes <= size; d += kLanes) {
    V x[kKeys];
#pragma GCC unroll 2
    for (Count t = 0; t < kKeys; ++t) x[t] = load(k + t * k_rows + d);
#pragma GCC unroll 4
    for (Count r = 0; r < kQueries; ++r) {
      const V y = load(q + r * size + d);
#pragma GCC unroll 2
      for (Count t = 0; t < kKeys; ++t) sum[r][t] += x[t] * y;
    }
  }
  for (Count r = 0; r < kQueries; ++r)
    for (Count t = 0; t < kKeys; ++t) {
      if (d < size) sum[r][t] += load_some(k + t * k_rows + d, size - d) * load_some(q + r * size + d, size - d);
      store(tiles + r * kTile + t * kLanes, sum[r][t]);
    }
}

// y[t] = the sum of the lanes of row t of a tile.
inline void sum_lanes(const float* tile, float* y) {
  alignas(64) float narrow[kLanes * kSquare], across[kSquare * kSquare];
  for (Count t = 0; t < kLanes; ++t)
    for (Count l = 0; l < kSquare; ++l) {
      float sum = 0;
      for (Count part = 0; part < kLanes; part += kSquare) sum += tile[t * kLanes + part + l];
      narrow[t * kSquare + l] = sum;
    }
  for (Count from = 0; from < kLanes; from += kSquare) {
    transpose_square(across, kSquare, narrow + from * kSquare, kSquare);
    for (Count t = 0; t < kSquare; ++t) {
      float sum = 0;
      for (Count l = 0; l < kSquare; ++l) sum += across[l * kSquare + t];
      y[from + t] = sum;
    }
  }
}

template <Count kQueries>
void scores_of(const float* q, const float* k, Count k_rows, Count keys, Count size, float* scores, Count stride) {
  alignas(64) float tiles[kQueries * kTile];
  alignas(64) float some[kLanes];
  for (Count first = 0; first < keys; first += kLanes) {
    const Count count = std::min(kLanes, keys - first);
    Count t = 0;
    for (; t + 2 <= count; t += 2) partial_scores<kQueries, 2>(q, k + (first + t) * k_rows, k_rows, size, tiles + t * kLanes);
    if (t < count) partial_scores<kQueries, 1>(q, k + (first + t) * k_rows, k_rows, size, tiles + t * kLanes);
    for (Count r = 0; r < kQueries; ++r) {
      float* const tile = tiles + r * kTile;
      if (count < kLanes) std::fill(tile + count * kLanes, tile + kTile, 0.0f);
      sum_lanes(tile, some);
      std::copy_n(some, count, scores + r * stride + first);
    }
  }
}

void scores(const float* q, Count rows, const float* k, Count k_rows, Count keys, Count size, float* result, Count stride) {
  for (; rows > 0; rows -= kRows, q += kRows * size, result += kRows * stride) {
    if (rows >= 4)
      scores_of<4>(q, k, k_rows, keys, size, result, stride);
    else if (rows == 3)
      scores_of<3>(q, k, k_rows, keys, size, result, stride);
    else if (rows == 2)
      scores_of<2>(q, k, k_rows, keys, size, result, stride);
    else
      scores_of<1>(q, k, k_rows, keys, size, result, stride);
  }
}

// kVectors vectors of each value; or, if not 0, `some` elements, less than a vector.
template <Count kQueries, Count kVectors>
inline void add_columns(const float* p, Count stride, const float* v, Count v_rows, Count keys, Count size, float* y,
                        Count some) {
  V sum[kQueries][kVectors] = {};
  for (Count t = 0; t < keys; ++t) {
    V x[kVectors];
#pragma GCC unroll 4
    for (Count c = 0; c < kVectors; ++c) x[c] = some > 0 ? load_some(v + t * v_rows, some) : load(v + t * v_rows + c * kLanes);
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

template <Count kQueries>
void add_values_of(const float* p, Count stride, const float* v, Count v_rows, Count keys, Count size, float* y) {
  constexpr Count kVectors = kQueries <= 2 ? 4 : kQueries == 3 ? 3 : 2;
  Count d = 0;
  for (; d + kVectors * kLanes <= size; d += kVectors * kLanes)
    add_columns<kQueries, kVectors>(p, stride, v + d, v_rows, keys, size, y + d, 0);
  for (; d + kLanes <= size; d += kLanes) add_columns<kQueries, 1>(p, stride, v + d, v_rows, keys, size, y + d, 0);
  if (d < size) add_columns<kQueries, 1>(p, stride, v + d, v_rows, keys, size, y + d, size - d);
}

void add_values(const float* p, Count stride, Count rows, const float* v, Count v_rows, Count keys, Count size, float* y) {
  for (; rows > 0; rows -= kRows, p += kRows * stride, y += kRows * size) {
    if (rows >= 4)
      add_values_of<4>(p, stride, v, v_rows, keys, size, y);
    else if (rows == 3)
      add_values_of<3>(p, stride, v, v_rows, keys, size, y);
    else if (rows == 2)
      add_values_of<2>(p, stride, v, v_rows, keys, size, y);
    else
      add_values_of<1>(p, stride, v, v_rows, keys, size, y);
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

constexpr CacheLoops kTable{scores, add_values, rotate};

}  // namespace

const CacheLoops& CacheLoops::REWRIGHT_ISA() { return kTable; }

}  // namespace rewright::cpu
