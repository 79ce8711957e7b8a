// Inner loops of attention by a few queries to keys and values in place, and of the rotation of heads, one table for each
// instruction set.
#pragma once

#include <cstdint>

#include "runtime/cpu/base/isa.h"

namespace rewright::cpu {

struct CacheLoops {
  // The table for each instruction set; loops_for<CacheLoops>(isa) chooses.
  static const CacheLoops &baseline(), &avx2(), &avx512();

  using Count = std::int64_t;
  // scores[r * stride + t] = sum(d) q[r * size + d] k[t * k_rows + d], r < rows, t < keys. Each key is read once for four rows.
  void (*scores)(const float* q, Count rows, const float* k, Count k_rows, Count keys, Count size, float* scores, Count stride);
  // y[r * size + d] += sum(t) p[r * stride + t] v[t * v_rows + d]
  void (*add_values)(const float* p, Count stride, Count rows, const float* v, Count v_rows, Count keys, Count size, float* y);
  // As above, for keys and values of 16 bits, [0]: halves, [1]: bfloat16; null: the instruction set does not convert them.
  void (*scores_of_short[2])(const float* q, Count rows, const std::uint16_t* k, Count k_rows, Count keys, Count size,
                             float* scores, Count stride);
  void (*add_short_values[2])(const float* p, Count stride, Count rows, const std::uint16_t* v, Count v_rows, Count keys,
                              Count size, float* y);
  // (y[a], y[b]) = factor * (x[a] c - x[b] s, x[a] s + x[b] c) for `half` pairs: neighbours, or elements `half` apart. The
  // others, up to `size`, are multiplied by the factor. y may be x.
  void (*rotate)(const float* x, const float* c, const float* s, Count half, Count size, bool neighbours, float factor,
                 float* y);
};

}  // namespace rewright::cpu
