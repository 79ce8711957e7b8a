// The loops of tree_loops.h; see rewright_loops in CMakeLists.txt.
#include "runtime/cpu/base/vectors_impl.h"
#include "runtime/cpu/loops/tree_loops.h"

namespace rewright::cpu {
namespace {

typedef std::int32_t I __attribute__((vector_size(REWRIGHT_VECTOR_BYTES)));
typedef std::uint32_t U __attribute__((vector_size(REWRIGHT_VECTOR_BYTES)));
constexpr Count kGroup = TreeLoops::kRows, kVectors = kGroup / kLanes;

void transpose(const float* x, Count rows, Count stride, Count columns, bool negated, float* to) {
  for (Count r = 0; r < rows; ++r)
    for (Count c = 0; c < columns; ++c) to[c * kGroup + r] = x[r * stride + c];
  for (Count r = rows; r < kGroup; ++r)
    for (Count c = 0; c < columns; ++c) to[c * kGroup + r] = 0;
  if (negated)
    for (Count n = 0; n < columns * kGroup; ++n) to[columns * kGroup + n] = -to[n];
}

// The number of the lowest bit that is set: the exponent of that bit as a float.
inline I lowest_bit(I v) {
  const V bit = __builtin_convertvector(v & -v, V);
  return (I)(((U)bit >> 23) & 255) - 127;
}

void leaves(const TreeTest* tests, const std::uint32_t* ends, Count words, const float* x, std::int32_t* leaf) {
  I found[kVectors] = {}, result[kVectors] = {};
  Count at = 0;
  for (Count w = 0; w < words; ++w) {
    I open[kVectors];
    for (Count i = 0; i < kVectors; ++i) open[i] = I{} - 1;
    for (; at < ends[w]; ++at) {
      const V split = V{} + tests[at].split;
      const I kept = I{} + static_cast<std::int32_t>(tests[at].kept);
      const float* const column = x + tests[at].column * kGroup;
#pragma GCC unroll 8
      for (Count i = 0; i < kVectors; ++i) open[i] &= (I)(load(column + i * kLanes) <= split) | kept;
    }
    for (Count i = 0; i < kVectors; ++i) {
      const I any = (I)(open[i] != 0);
      result[i] |= (lowest_bit(open[i]) + static_cast<std::int32_t>(32 * w)) & any & ~found[i];
      found[i] |= any;
    }
  }
  std::memcpy(leaf, result, sizeof result);
}

constexpr TreeLoops kTable{transpose, leaves};

}  // namespace

const TreeLoops& TreeLoops::REWRIGHT_ISA() { return kTable; }

}  // namespace rewright::cpu
