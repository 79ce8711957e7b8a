// Inner loops of small decision trees, one table for each instruction set.
#pragma once

#include <cstdint>

#include "runtime/cpu/base/isa.h"

namespace rewright::cpu {

// A test of a tree for a word of 32 of its leaves. If it does not hold, only those whose bits are in `kept` may be reached.
struct TreeTest {
  float split;
  std::uint32_t column, kept;
};

struct TreeLoops {
  // The table for each instruction set; loops_for<TreeLoops>(isa) chooses.
  static const TreeLoops &baseline(), &avx2(), &avx512();

  using Count = std::int64_t;
  static constexpr Count kRows = 32;  // at a time

  // to[c * kRows + r] = x[r * stride + c], and the negated elements behind all of them if `negated`.
  void (*transpose)(const float* x, Count rows, Count stride, Count columns, bool negated, float* to);
  // The leaf that each row reaches: the first one that no test excludes, as in QuickScorer (Lucchese et al., SIGIR 2015). Row r
  // holds a test if x[column * kRows + r] <= split. The tests of word w are those before ends[w].
  void (*leaves)(const TreeTest* tests, const std::uint32_t* ends, Count words, const float* x, std::int32_t* leaf);
};

}  // namespace rewright::cpu
