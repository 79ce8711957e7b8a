// The loops of scaling_loops.h; see rewright_loops in CMakeLists.txt.
#include "runtime/cpu/loops/scaling_loops.h"

#include <cmath>
#include <limits>
#include <type_traits>
#if REWRIGHT_VECTOR_BYTES == 64
#include <immintrin.h>
#endif

namespace rewright::cpu {
namespace {

using Count = ScalingLoops::Count;

template <class R, class T>
inline void scale_elements(R* d, const T* s, Count n, const typename RowSums<R>::Scaling& by) {
  const R center = by.center, factor = by.factor, shift = by.shift, low = by.low, high = by.high;
#pragma GCC ivdep
  for (Count c = 0; c < n; ++c) {
    const R x = (static_cast<R>(s[c]) - center) * factor + shift;
    const R above = low > x ? low : x;  // in this order NaN passes through
    d[c] = high < above ? high : above;
  }
}
template <class T>
void scale(T* d, const T* s, Count n, const typename RowSums<T>::Scaling& by) {
  scale_elements(d, s, n, by);
}
void scale_uint8(float* d, const std::uint8_t* s, Count n, const ScalingLoops::Scaling& by) { scale_elements(d, s, n, by); }
void scale_int8(float* d, const std::int8_t* s, Count n, const ScalingLoops::Scaling& by) { scale_elements(d, s, n, by); }

#if REWRIGHT_VECTOR_BYTES == 64
template <class T>
inline __m512 load_lanes(const T* s, __mmask16 lanes) {
  if constexpr (std::is_same_v<T, float>)
    return _mm512_maskz_loadu_ps(lanes, s);
  else if constexpr (std::is_same_v<T, std::int8_t>)
    return _mm512_maskz_cvtepi32_ps(lanes, _mm512_maskz_cvtepi8_epi32(lanes, _mm_maskz_loadu_epi8(lanes, s)));
  else
    return _mm512_maskz_cvtepi32_ps(lanes, _mm512_maskz_cvtepu8_epi32(lanes, _mm_maskz_loadu_epi8(lanes, s)));
}
#endif
template <class T>
void scale_rows(float* d, const T* s, Count rows, Count n, const ScalingLoops::RowScalings& by) {
#if REWRIGHT_VECTOR_BYTES == 64
  constexpr Count kLanes = 16;
  const Count whole = n / kLanes * kLanes;
  const auto rest = static_cast<__mmask16>((1u << (n - whole)) - 1);
  const __m512 low = _mm512_set1_ps(by.low), high = _mm512_set1_ps(by.high);
  for (Count r = 0; r < rows; ++r, d += n, s += n) {
    const __m512 center = _mm512_set1_ps(by.center[r]), factor = _mm512_set1_ps(by.factor[r]),
                 shift = _mm512_set1_ps(by.shift[r]);
    const auto scaled = [&](const T* x, __mmask16 lanes) {
      const __m512 y = (load_lanes(x, lanes) - center) * factor + shift;
      // For NaN the result is the second operand.
      return _mm512_maskz_min_ps(lanes, high, _mm512_maskz_max_ps(lanes, low, y));
    };
    for (Count c = 0; c < whole; c += kLanes) _mm512_storeu_ps(d + c, scaled(s + c, 0xFFFF));
    if (rest != 0) _mm512_mask_storeu_ps(d + whole, rest, scaled(s + whole, rest));
  }
#else
  for (Count r = 0; r < rows; ++r)
    scale_elements(d + r * n, s + r * n, n, ScalingLoops::Scaling{by.center[r], by.factor[r], by.shift[r], by.low, by.high});
#endif
}

void two_slopes(float* d, const float* s, Count n, float slope) {
#pragma GCC ivdep
  for (Count c = 0; c < n; ++c) {
    const float x = s[c], scaled = x * slope;
    d[c] = x < 0 ? scaled : x;
  }
}

// Long sums are added up in parts, each in some independent ones.
template <class T, class F>
inline T sum_in_parts(const T* s, Count n, F f) {
  constexpr Count kTogether = 32, kPart = 128 * kTogether;
  T all[kTogether] = {};
  Count c = 0;
  while (c + kTogether <= n) {
    T part[kTogether] = {};
    for (const Count end = n - c < kPart ? n - kTogether : c + kPart - kTogether; c <= end; c += kTogether)
      for (Count k = 0; k < kTogether; ++k) part[k] += f(s[c + k]);
    for (Count k = 0; k < kTogether; ++k) all[k] += part[k];
  }
  for (Count k = 0; c < n; ++c, ++k) all[k] += f(s[c]);
  for (Count width = kTogether / 2; width > 0; width /= 2)
    for (Count k = 0; k < width; ++k) all[k] += all[k + width];
  return all[0];
}

template <class T>
T sum(const T* s, Count n, T center) {
  return sum_in_parts(s, n, [=](T x) { return x - center; });
}

template <class T>
T sum_of_squares(const T* s, Count n, T center) {
  return sum_in_parts(s, n, [=](T x) { return (x - center) * (x - center); });
}

template <class T>
T sum_of_magnitudes(const T* s, Count n, T center) {
  return sum_in_parts(s, n, [=](T x) { return std::fabs(x - center); });
}

void extremes(const float* s, Count n, float* least, float* largest) {
  constexpr Count kTogether = 64;
  float low = *least, high = *largest;
  std::int32_t unordered = low != low || high != high;
  Count c = 0;
  if (n >= kTogether) {
    float lows[kTogether], highs[kTogether];
    std::int32_t others[kTogether] = {};
    for (Count k = 0; k < kTogether; ++k) lows[k] = low, highs[k] = high;
    for (; c + kTogether <= n; c += kTogether)
      for (Count k = 0; k < kTogether; ++k) {
        const float x = s[c + k];
        lows[k] = x < lows[k] ? x : lows[k];
        highs[k] = x > highs[k] ? x : highs[k];
        others[k] |= x != x;
      }
    for (Count k = 0; k < kTogether; ++k) {
      low = lows[k] < low ? lows[k] : low;
      high = highs[k] > high ? highs[k] : high;
      unordered |= others[k];
    }
  }
  for (; c < n; ++c) {
    low = s[c] < low ? s[c] : low;
    high = s[c] > high ? s[c] : high;
    unordered |= s[c] != s[c];
  }
  *least = unordered != 0 ? std::numeric_limits<float>::quiet_NaN() : low;
  *largest = unordered != 0 ? std::numeric_limits<float>::quiet_NaN() : high;
}

void quantize(std::uint8_t* d, const float* s, Count n, const ScalingLoops::Quantization& by) {
  const float scale = by.scale, zero = by.zero, low = by.low, high = by.high;
#pragma GCC ivdep
  for (Count c = 0; c < n; ++c) {
    const float x = std::nearbyint(s[c] / scale) + zero, above = x > low ? x : x != x ? 0.0f : low;
    d[c] = static_cast<std::uint8_t>(static_cast<std::int32_t>(above < high ? above : high));
  }
}

template <class U>
void compare_bits(std::uint8_t* d, const U* s, Count n, U bound, bool above) {
  constexpr U kMagnitude = static_cast<U>(~U(0)) >> 1;
  if (above) {
#pragma GCC ivdep
    for (Count c = 0; c < n; ++c) d[c] = static_cast<U>(s[c] & kMagnitude) > bound;
  } else {
#pragma GCC ivdep
    for (Count c = 0; c < n; ++c) d[c] = static_cast<U>(s[c] & kMagnitude) == bound;
  }
}

template <class T>
constexpr RowSums<T> kSums{scale<T>, sum<T>, sum_of_squares<T>, sum_of_magnitudes<T>};
constexpr ScalingLoops kTable{kSums<float>,
                              kSums<double>,
                              scale_uint8,
                              scale_int8,
                              scale_rows<float>,
                              scale_rows<std::uint8_t>,
                              scale_rows<std::int8_t>,
                              two_slopes,
                              extremes,
                              quantize,
                              compare_bits<std::uint16_t>,
                              compare_bits<std::uint32_t>,
                              compare_bits<std::uint64_t>};

}  // namespace

const ScalingLoops& ScalingLoops::REWRIGHT_ISA() { return kTable; }

}  // namespace rewright::cpu
