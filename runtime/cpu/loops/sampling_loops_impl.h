// The loops of sampling_loops.h; see rewright_loops in CMakeLists.txt.
#include <cmath>

#include "runtime/cpu/base/vectors_impl.h"
#include "runtime/cpu/loops/sampling_loops.h"

namespace rewright::cpu {
namespace {

constexpr Count kPoints = SamplingLoops::kPoints;

// Mirrors at the borders until x is inside.
struct Mirror {
  explicit Mirror(const SampledAxis& axis)
      : low(axis.aligned ? 0.0f : -0.5f),
        range(static_cast<float>(axis.aligned ? axis.size - 1 : axis.size)),
        turn(range > 0 ? static_cast<float>(1.0 / static_cast<double>(range)) : 0.0f) {}
  float of(float x) const {
    if (range <= 0) return x * 0.0f;
    const float distance = std::fabs(x - low), turns = std::floor(distance * turn), rest = distance - turns * range;
    const float odd = turns - 2.0f * std::floor(turns * 0.5f);
    return (odd < 0.5f ? rest : range - rest) + low;
  }
  float low, range, turn;
};

inline float within(float x, float last) { return x < 0.0f ? 0.0f : x > last ? last : x; }

// The position among the elements. Loops of their own keep a product apart from the sum behind it.
void find_positions(const SampledAxis& axis, const float* grid, Count step, Count n, float* x) {
  constexpr float kFar = 1e9f;
  const auto size = static_cast<float>(axis.size);
  const float factor = axis.aligned ? static_cast<float>(static_cast<double>(axis.size - 1) / 2) : size;
  const float otherwise = axis.aligned ? 0.0f : -0.5f;
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) x[i] = (grid[i * step] + 1.0f) * factor;
  if (!axis.aligned) {
#pragma GCC ivdep
    for (Count i = 0; i < n; ++i) x[i] = (x[i] - 1.0f) * 0.5f;
  }
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) {  // what no integer of 64 bits can hold, NaN included, counts as -1
    const float known = std::fabs(x[i]) < 0x1p63f ? x[i] : otherwise;
    x[i] = known < -kFar ? -kFar : known > kFar ? kFar : known;
  }
  if (axis.mode == Sampling::kNearest) {
#pragma GCC ivdep
    for (Count i = 0; i < n; ++i) x[i] = std::nearbyint(x[i]);
  }
  if (axis.mode == Sampling::kCubic || axis.padding == SamplingPadding::kZeros) return;
  const float last = size - 1.0f;
  const Mirror mirror(axis);
  if (axis.padding == SamplingPadding::kBorder) {
#pragma GCC ivdep
    for (Count i = 0; i < n; ++i) x[i] = within(x[i], last);
  } else {
#pragma GCC ivdep
    for (Count i = 0; i < n; ++i) x[i] = mirror.of(x[i]);
  }
}

// Keys, 1981, with a = -0.75: the outer and the inner pair of taps.
inline float outer_weight(float d) { return ((-0.75f * d + 3.75f) * d - 6.0f) * d + 3.0f; }
inline float inner_weight(float d) { return (1.25f * d - 2.25f) * d * d + 1.0f; }

void axis_taps(const SampledAxis& axis, const float* grid, Count step, Count n, const SamplingLoops::Taps& taps) {
  float x[kPoints], at[4][kPoints];
  find_positions(axis, grid, step, n, x);
  float* const w = taps.weight;
  if (axis.mode == Sampling::kNearest) {
#pragma GCC ivdep
    for (Count i = 0; i < n; ++i) {
      at[0][i] = std::nearbyint(x[i]);
      w[i] = 1.0f;
    }
  } else if (axis.mode == Sampling::kLinear) {
#pragma GCC ivdep
    for (Count i = 0; i < n; ++i) {
      const float below = std::floor(x[i]), rest = x[i] - below;
      at[0][i] = below;
      at[1][i] = below + 1.0f;
      w[i] = 1.0f - rest;
      w[kPoints + i] = rest;
    }
  } else {
#pragma GCC ivdep
    for (Count i = 0; i < n; ++i) {
      const float below = std::floor(x[i]), r = x[i] - below, s = 1.0f - r;
      at[0][i] = below - 1.0f;
      at[1][i] = below;
      at[2][i] = below + 1.0f;
      at[3][i] = below + 2.0f;
      w[i] = outer_weight(r + 1.0f);
      w[kPoints + i] = inner_weight(r);
      w[2 * kPoints + i] = inner_weight(s);
      w[3 * kPoints + i] = outer_weight(s + 1.0f);
    }
  }
  const auto last = static_cast<float>(axis.size - 1);
  const Mirror mirror(axis);
  for (Count t = 0; t < axis.taps(); ++t) {
    float* const weight = w + t * kPoints;
    std::int32_t* const to = taps.at + t * kPoints;
    if (axis.padding == SamplingPadding::kZeros) {
#pragma GCC ivdep
      for (Count i = 0; i < n; ++i) {
        weight[i] = at[t][i] >= 0.0f && at[t][i] <= last ? weight[i] : 0.0f;
        to[i] = static_cast<std::int32_t>(within(at[t][i], last));
      }
    } else if (axis.padding == SamplingPadding::kBorder) {
#pragma GCC ivdep
      for (Count i = 0; i < n; ++i) to[i] = static_cast<std::int32_t>(within(at[t][i], last));
    } else {
#pragma GCC ivdep
      for (Count i = 0; i < n; ++i) to[i] = static_cast<std::int32_t>(within(std::nearbyint(mirror.of(at[t][i])), last));
    }
  }
}

void combine(const SamplingLoops::Taps& outer, Count outer_taps, const SamplingLoops::Taps& inner, Count inner_taps, Count size,
             Count n, const SamplingLoops::Taps& taps) {
  std::int32_t* at = taps.at;
  float* weight = taps.weight;
  const auto width = static_cast<std::int32_t>(size);
  for (Count a = 0; a < outer_taps; ++a)
    for (Count b = 0; b < inner_taps; ++b, at += kPoints, weight += kPoints) {
      const std::int32_t *const p = outer.at + a * kPoints, *const q = inner.at + b * kPoints;
      const float *const v = outer.weight + a * kPoints, *const w = inner.weight + b * kPoints;
#pragma GCC ivdep
      for (Count i = 0; i < n; ++i) {
        at[i] = p[i] * width + q[i];
        weight[i] = v[i] * w[i];
      }
    }
}

inline V gathered(const float* s, const std::int32_t* at) {
#if REWRIGHT_VECTOR_BYTES == 64
  return (V)_mm512_mask_i32gather_ps(_mm512_setzero_ps(), __mmask16(-1), _mm512_loadu_si512(at), s, sizeof(float));
#elif REWRIGHT_VECTOR_BYTES == 32
  return (V)_mm256_i32gather_ps(s, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)), sizeof(float));
#else
  return V{s[at[0]], s[at[1]], s[at[2]], s[at[3]]};
#endif
}

template <Count kTaps>
inline void sample_with(float* d, const float* s, const SamplingLoops::Taps& taps, Count count, Count n) {
  const Count all = kTaps > 0 ? kTaps : count;
  for (Count i = 0; i < n; i += kLanes) {
    V total{};
#pragma GCC unroll 4
    for (Count t = 0; t < all; ++t) total += load(taps.weight + t * kPoints + i) * gathered(s, taps.at + t * kPoints + i);
    if (i + kLanes <= n)
      store(d + i, total);
    else
      store_some(d + i, total, n - i);
  }
}
void sample(float* d, const float* s, const SamplingLoops::Taps& taps, Count count, Count n) {
  if (count == 1) return sample_with<1>(d, s, taps, count, n);
  if (count == 4) return sample_with<4>(d, s, taps, count, n);
  sample_with<0>(d, s, taps, count, n);
}

void blend(float* d, const float* s, const Count* at, const float* weight, Count n) {
  const float *const s0 = s + at[0], *const s1 = s + at[1], *const s2 = s + at[2], *const s3 = s + at[3];
  const auto part = [&](Count i, const auto& read) {
    return weight[0] * read(s0 + i) + weight[1] * read(s1 + i) + weight[2] * read(s2 + i) + weight[3] * read(s3 + i);
  };
  Count i = 0;
  for (; i + kLanes <= n; i += kLanes) store(d + i, part(i, [](const float* from) { return load(from); }));
  if (i < n) store_some(d + i, part(i, [&](const float* from) { return load_some(from, n - i); }), n - i);
}

constexpr SamplingLoops kTable{axis_taps, combine, sample, blend};

}  // namespace

const SamplingLoops& SamplingLoops::REWRIGHT_ISA() { return kTable; }

}  // namespace rewright::cpu
