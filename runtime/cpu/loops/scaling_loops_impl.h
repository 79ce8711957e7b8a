// The loops of scaling_loops.h; see rewright_loops in CMakeLists.txt.
#include "runtime/cpu/loops/scaling_loops.h"

namespace rewright::cpu {
namespace {

using Count = ScalingLoops::Count;

void scale(float* d, const float* s, Count n, const ScalingLoops::Scaling& by) {
  const float center = by.center, factor = by.factor, shift = by.shift, low = by.low, high = by.high;
#pragma GCC ivdep
  for (Count c = 0; c < n; ++c) {
    const float x = (s[c] - center) * factor + shift, above = low > x ? low : x;  // in this order NaN passes through
    d[c] = high < above ? high : above;
  }
}

void two_slopes(float* d, const float* s, Count n, float slope) {
#pragma GCC ivdep
  for (Count c = 0; c < n; ++c) {
    const float x = s[c], scaled = x * slope;
    d[c] = x < 0 ? scaled : x;
  }
}

constexpr ScalingLoops kTable{scale, two_slopes};

}  // namespace

const ScalingLoops& ScalingLoops::REWRIGHT_ISA() { return kTable; }

}  // namespace rewright::cpu
