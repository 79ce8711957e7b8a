// Interpolation at computed positions (GridSample, DeformConv), one table for each instruction set.
#pragma once

#include <cstdint>

#include "runtime/cpu/base/isa.h"

namespace rewright::cpu {

enum class Sampling { kNearest, kLinear, kCubic };
enum class SamplingPadding { kZeros, kBorder, kReflection };

// An axis that is sampled. Aligned: -1 and 1 are the centres of its first and last element, else their outer edges.
struct SampledAxis {
  std::int64_t size;
  Sampling mode;
  SamplingPadding padding;
  bool aligned;

  std::int64_t taps() const { return mode == Sampling::kNearest ? 1 : mode == Sampling::kLinear ? 2 : 4; }
};

struct SamplingLoops {
  // The table for each instruction set; loops_for<SamplingLoops>(isa) chooses.
  static const SamplingLoops &baseline(), &avx2(), &avx512();

  using Count = std::int64_t;
  static constexpr Count kPoints = 256;  // at a time
  // Elements beside a point: tap t of point i is element at[t * kPoints + i], with a weight likewise.
  struct Taps {
    std::int32_t* at;
    float* weight;
  };
  // The taps of n <= kPoints points on an axis. `grid`: their positions from -1 to 1, `step` apart. Each operation is rounded
  // by itself, as the operator's graph has them: a position decides which elements are read.
  void (*axis_taps)(const SampledAxis& axis, const float* grid, Count step, Count n, const Taps& taps);
  // All combinations of taps of two axes, of which `inner` has this size: those of `outer` in front.
  void (*combine)(const Taps& outer, Count outer_taps, const Taps& inner, Count inner_taps, Count size, Count n,
                  const Taps& taps);
  // d[i] = sum over t of weight[t, i] * s[at[t, i]]. Taps up to the next multiple of kLanes must be readable.
  void (*sample)(float* d, const float* s, const Taps& taps, Count count, Count n);
  static constexpr Count kLanes = 16;
  // d[i] = sum over t < 4 of weight[t] * s[at[t] + i], one after the other
  void (*blend)(float* d, const float* s, const Count* at, const float* weight, Count n);
};

}  // namespace rewright::cpu
