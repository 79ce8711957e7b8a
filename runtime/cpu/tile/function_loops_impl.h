// Loops of functions of reals: SLEEF's, except some on floats, which are hot or have short polynomials.
#pragma once

#include <immintrin.h>
#include <sleef.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <type_traits>

#include "expressions/power_of_two.h"
#include "runtime/cpu/base/arcs_impl.h"
#include "runtime/cpu/base/error_function_impl.h"
#include "runtime/cpu/base/exponential_impl.h"
#include "runtime/cpu/base/tanh_impl.h"
#include "runtime/cpu/tile/elementwise_impl.h"

namespace rewright::cpu {
namespace {

// exp(x) = 2^k * exp(r), |r| <= ln(2) / 2; the polynomial is Cephes' expf. 2^k is applied in two
// halves, so that subnormal results and those next to the largest float are correct.
inline float exp_float(float x) {
  const float clamped = x < -104.0f ? -104.0f : x > 89.0f ? 89.0f : x;             // NaN passes
  const float shifted = multiply_add(clamped, 1.44269504088896341f, 12582912.0f);  // 1.5 * 2^23: rounds to an integer
  const float k = shifted - 12582912.0f;
  const std::int32_t exponent = std::bit_cast<std::int32_t>(shifted) - 0x4B400000;
  const float r = multiply_add(-k, -2.12194440e-4f, multiply_add(-k, 0.693359375f, clamped));
  const float p = exp_polynomial(r);
  const float power = multiply_add(p * r, r, r) + 1.0f;
  const std::int32_t half = exponent >> 1;
  const float scale1 = std::bit_cast<float>((half + 127) << 23);
  const float scale2 = std::bit_cast<float>((exponent - half + 127) << 23);
  return power * scale1 * scale2;
}
#if REWRIGHT_VECTOR_BYTES == 64
// exp_float with the same bits; one instruction multiplies by 2^k. Masks of all elements keep GCC 12 from warning of undefined
// ones.
inline __m512 exp_vector(__m512 x) {
  const auto all = [](float value) { return _mm512_set1_ps(value); };
  const __m512 clamped = _mm512_maskz_min_ps(0xFFFF, all(89.0f), _mm512_maskz_max_ps(0xFFFF, all(-104.0f), x));  // NaN passes
  const __m512 k = _mm512_sub_ps(_mm512_fmadd_ps(clamped, all(1.44269504088896341f), all(12582912.0f)), all(12582912.0f));
  const __m512 r = _mm512_fnmadd_ps(k, all(-2.12194440e-4f), _mm512_fnmadd_ps(k, all(0.693359375f), clamped));
  __m512 p = all(kExpCoefficients[0]);
  for (std::size_t i = 1; i < std::size(kExpCoefficients); ++i) p = _mm512_fmadd_ps(p, r, all(kExpCoefficients[i]));
  const __m512 power = _mm512_add_ps(_mm512_fmadd_ps(_mm512_mul_ps(p, r), r, r), all(1.0f));
  return _mm512_maskz_scalef_ps(0xFFFF, power, k);
}
template <class F>
inline void map_vectors(float* d, const float* a, Count n, F f) {
  constexpr Count kWidth = 16;
  Count i = 0;
  for (; i + kWidth <= n; i += kWidth) _mm512_storeu_ps(d + i, f(_mm512_loadu_ps(a + i)));
  const auto rest = static_cast<__mmask16>((1u << (n - i)) - 1);
  if (rest != 0) _mm512_mask_storeu_ps(d + i, rest, f(_mm512_maskz_loadu_ps(rest, a + i)));
}
void exp_f32(float* d, const float* a, Count n) {
  map_vectors(d, a, n, [](__m512 x) { return exp_vector(x); });
}
void sigmoid_f32(float* d, const float* a, Count n) {
  map_vectors(d, a, n, [](__m512 x) {
    const __m512 one = _mm512_set1_ps(1.0f);
    return _mm512_div_ps(one, _mm512_add_ps(one, exp_vector(_mm512_sub_ps(_mm512_setzero_ps(), x))));
  });
}
#else
void exp_f32(float* d, const float* a, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = exp_float(a[i]);
}
void sigmoid_f32(float* d, const float* a, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = 1.0f / (1.0f + exp_float(-a[i]));
}
#endif
#if REWRIGHT_VECTOR_BYTES == 64
void tanh_f32(float* d, const float* a, Count n) {
  map_vectors(d, a, n, [](__m512 given) {
    const auto all = [](float value) { return _mm512_set1_ps(value); };
    const auto within = [&](float bound, __m512 x) {  // NaN passes
      return _mm512_maskz_min_ps(0xFFFF, all(bound), _mm512_maskz_max_ps(0xFFFF, all(-bound), x));
    };
    const __m512 x = within(kTanhEnd, given), z = _mm512_mul_ps(x, x);
    __m512 p = all(kTanhAbove[0]), q = all(kTanhBelow[0]);
    for (std::size_t i = 1; i < std::size(kTanhAbove); ++i) {
      p = _mm512_fmadd_ps(p, z, all(kTanhAbove[i]));
      q = _mm512_fmadd_ps(q, z, all(kTanhBelow[i]));
    }
    return within(1.0f, _mm512_div_ps(_mm512_mul_ps(p, x), q));
  });
}
#else
inline float within(float bound, float x) { return x < -bound ? -bound : x > bound ? bound : x; }  // NaN passes
void tanh_f32(float* d, const float* a, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) {
    const float x = within(kTanhEnd, a[i]), z = x * x;
    float p = multiply_add(kTanhAbove[0], z, kTanhAbove[1]), q = multiply_add(kTanhBelow[0], z, kTanhBelow[1]);
    p = multiply_add(p, z, kTanhAbove[2]), q = multiply_add(q, z, kTanhBelow[2]);
    p = multiply_add(p, z, kTanhAbove[3]), q = multiply_add(q, z, kTanhBelow[3]);
    p = multiply_add(p, z, kTanhAbove[4]), q = multiply_add(q, z, kTanhBelow[4]);
    d[i] = within(1.0f, p * x / q);
  }
}
#endif

void erf_f32(float* d, const float* a, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) {
    const float x = a[i];
    const float inside = error_function_within(x < -4.0f ? -4.0f : x > 4.0f ? 4.0f : x);  // NaN passes
    d[i] = x > 3.925f ? 1.0f : x < -3.925f ? -1.0f : inside;
  }
}

void asin_f32(float* d, const float* a, Count n) { map(d, a, n, arc_sine); }
void acos_f32(float* d, const float* a, Count n) { map(d, a, n, arc_cosine); }
void atan_f32(float* d, const float* a, Count n) { map(d, a, n, arc_tangent); }

template <class R>
void absolute(R* d, const R* a, Count n) {
  map(d, a, n, [](R x) { return std::fabs(x); });
}
template <class R>
void sign(R* d, const R* a, Count n) {
  map(d, a, n, [](R x) { return x > 0 ? R(1) : x < 0 ? R(-1) : x; });
}
template <class R>
void square_root(R* d, const R* a, Count n) {
  map(d, a, n, [](R x) { return std::sqrt(x); });
}
template <class R>
void inverse_square_root(R* d, const R* a, Count n) {
  map(d, a, n, [](R x) { return R(1) / std::sqrt(x); });
}
template <class R>
void round_even(R* d, const R* a, Count n) {
  map(d, a, n, [](R x) { return std::nearbyint(x); });
}
template <class R>
void round_down(R* d, const R* a, Count n) {
  map(d, a, n, [](R x) { return std::floor(x); });
}
template <class R>
void round_up(R* d, const R* a, Count n) {
  map(d, a, n, [](R x) { return std::ceil(x); });
}
template <class R>
void is_nan(I* d, const R* a, Count n) {
  map(d, a, n, [](R x) { return x != x; });
}
template <class R>
void is_infinite(I* d, const R* a, Count n) {
  map(d, a, n, [](R x) { return std::fabs(x) == std::numeric_limits<R>::infinity(); });
}
// The remainder x - q * y with an integer q: towards zero, or rounded down. Quotients of floats below 2^24 are exact enough in
// double to be rounded, and their products exact.
template <bool kDown>
void modulo_f32(float* d, const float* a, const float* b, Count n) {
  for (Count first = 0; first < n; first += kPart) {
    const Count last = first + kPart < n ? first + kPart : n;
    I outside = 0;
    for (Count i = first; i < last; ++i)
      outside |= !(std::fabs(double(a[i])) < 0x1p24 * std::fabs(double(b[i])) && std::fabs(b[i]) < 0x1p127f);
    if (outside != 0) {
      const Function& f = kDown ? functions::floor_modulo : functions::truncated_modulo;
      for (Count i = first; i < last; ++i) {
        const double arguments[] = {a[i], b[i]};
        d[i] = static_cast<float>(f.real(arguments));
      }
      continue;
    }
#pragma GCC ivdep
    for (Count i = first; i < last; ++i) {
      const double x = a[i], y = b[i];
      const double r = x - (kDown ? std::floor(x / y) : std::trunc(x / y)) * y;
      d[i] = static_cast<float>(std::copysign(r, kDown ? y : x));
    }
  }
}
template <class R>
void nearest_float(R* d, const R* a, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = static_cast<float>(a[i]);
}
template <class R, class F>
inline void choose(R* d, const R* x, const R* y, const R* a, const R* b, Count n, F holds) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) {
    const R yes = a[i], no = b[i];
    d[i] = holds(x[i], y[i]) ? yes : no;
  }
}
template <class R>
void select_equal(R* d, const R* x, const R* y, const R* a, const R* b, Count n) {
  choose(d, x, y, a, b, n, [](R p, R q) { return p == q; });
}
template <class R>
void select_less(R* d, const R* x, const R* y, const R* a, const R* b, Count n) {
  choose(d, x, y, a, b, n, [](R p, R q) { return p < q; });
}
template <class R>
void select_less_equal(R* d, const R* x, const R* y, const R* a, const R* b, Count n) {
  choose(d, x, y, a, b, n, [](R p, R q) { return p <= q; });
}
template <class R>
void power_of_two(R* d, const R* a, Count n) {
  using Bits = std::conditional_t<sizeof(R) == 4, std::uint32_t, std::uint64_t>;
  constexpr Bits kExponent = std::bit_cast<Bits>(std::numeric_limits<R>::infinity());
  constexpr R kUp = R(0x1p64), kDown = R(0x1p-64);  // subnormal numbers are scaled to normal ones
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) {
    const R x = std::fabs(a[i]), scaled = x < std::numeric_limits<R>::min() ? x * kUp : x;
    const R power = std::bit_cast<R>(std::bit_cast<Bits>(scaled) & kExponent);
    d[i] = x != x ? x : x < std::numeric_limits<R>::min() ? power * kDown : power;
  }
}

#if REWRIGHT_VECTOR_BYTES == 64
#define REWRIGHT_SLEEF_F32(name, bound) Sleef_##name##f16_##bound##avx512f
#define REWRIGHT_SLEEF_F64(name, bound) Sleef_##name##d8_##bound##avx512f
#define REWRIGHT_VECTOR_F32 __m512
#define REWRIGHT_VECTOR_F64 __m512d
#define REWRIGHT_LOAD_F32 _mm512_loadu_ps
#define REWRIGHT_LOAD_F64 _mm512_loadu_pd
#define REWRIGHT_STORE_F32 _mm512_storeu_ps
#define REWRIGHT_STORE_F64 _mm512_storeu_pd
#elif REWRIGHT_VECTOR_BYTES == 32
#define REWRIGHT_SLEEF_F32(name, bound) Sleef_##name##f8_##bound##avx2
#define REWRIGHT_SLEEF_F64(name, bound) Sleef_##name##d4_##bound##avx2
#define REWRIGHT_VECTOR_F32 __m256
#define REWRIGHT_VECTOR_F64 __m256d
#define REWRIGHT_LOAD_F32 _mm256_loadu_ps
#define REWRIGHT_LOAD_F64 _mm256_loadu_pd
#define REWRIGHT_STORE_F32 _mm256_storeu_ps
#define REWRIGHT_STORE_F64 _mm256_storeu_pd
#else
#define REWRIGHT_SLEEF_F32(name, bound) Sleef_##name##f4_##bound##sse2
#define REWRIGHT_SLEEF_F64(name, bound) Sleef_##name##d2_##bound##sse2
#define REWRIGHT_VECTOR_F32 __m128
#define REWRIGHT_VECTOR_F64 __m128d
#define REWRIGHT_LOAD_F32 _mm_loadu_ps
#define REWRIGHT_LOAD_F64 _mm_loadu_pd
#define REWRIGHT_STORE_F32 _mm_storeu_ps
#define REWRIGHT_STORE_F64 _mm_storeu_pd
#endif

// A loop over a SLEEF function; the last vector is padded.
#define REWRIGHT_SLEEF_LOOP_OF(T, S, name, bound)                                                                              \
  void sleef_##name(T* d, const T* a, Count n) {                                                                               \
    constexpr Count kWidth = sizeof(REWRIGHT_VECTOR_##S) / sizeof(T);                                                          \
    Count i = 0;                                                                                                               \
    for (; i + kWidth <= n; i += kWidth) REWRIGHT_STORE_##S(d + i, REWRIGHT_SLEEF_##S(name, bound)(REWRIGHT_LOAD_##S(a + i))); \
    if (i == n) return;                                                                                                        \
    T rest[kWidth] = {};                                                                                                       \
    std::memcpy(rest, a + i, (n - i) * sizeof(T));                                                                             \
    REWRIGHT_STORE_##S(rest, REWRIGHT_SLEEF_##S(name, bound)(REWRIGHT_LOAD_##S(rest)));                                        \
    std::memcpy(d + i, rest, (n - i) * sizeof(T));                                                                             \
  }
#define REWRIGHT_SLEEF_LOOP(name, bound)          \
  REWRIGHT_SLEEF_LOOP_OF(float, F32, name, bound) \
  REWRIGHT_SLEEF_LOOP_OF(double, F64, name, bound)
REWRIGHT_SLEEF_LOOP_OF(double, F64, exp, u10)
REWRIGHT_SLEEF_LOOP_OF(double, F64, tanh, u10)
REWRIGHT_SLEEF_LOOP(log, u10)
REWRIGHT_SLEEF_LOOP_OF(double, F64, erf, u10)
REWRIGHT_SLEEF_LOOP_OF(double, F64, asin, u10)
REWRIGHT_SLEEF_LOOP_OF(double, F64, acos, u10)
REWRIGHT_SLEEF_LOOP_OF(double, F64, atan, u10)
REWRIGHT_SLEEF_LOOP(sinh, u10)
REWRIGHT_SLEEF_LOOP(cosh, u10)
REWRIGHT_SLEEF_LOOP(asinh, u10)
REWRIGHT_SLEEF_LOOP(acosh, u10)
REWRIGHT_SLEEF_LOOP(atanh, u10)
REWRIGHT_SLEEF_LOOP(sin, u10)
REWRIGHT_SLEEF_LOOP(cos, u10)
REWRIGHT_SLEEF_LOOP(tan, u10)
REWRIGHT_SLEEF_LOOP(log1p, u10)

#define REWRIGHT_SLEEF_POWER(T, S)                                                                                 \
  void sleef_power(T* d, const T* a, const T* b, Count n) {                                                        \
    constexpr Count kWidth = sizeof(REWRIGHT_VECTOR_##S) / sizeof(T);                                              \
    Count i = 0;                                                                                                   \
    for (; i + kWidth <= n; i += kWidth)                                                                           \
      REWRIGHT_STORE_##S(d + i, REWRIGHT_SLEEF_##S(pow, u10)(REWRIGHT_LOAD_##S(a + i), REWRIGHT_LOAD_##S(b + i))); \
    if (i == n) return;                                                                                            \
    T base[kWidth] = {}, exponent[kWidth] = {};                                                                    \
    std::memcpy(base, a + i, (n - i) * sizeof(T));                                                                 \
    std::memcpy(exponent, b + i, (n - i) * sizeof(T));                                                             \
    REWRIGHT_STORE_##S(base, REWRIGHT_SLEEF_##S(pow, u10)(REWRIGHT_LOAD_##S(base), REWRIGHT_LOAD_##S(exponent)));  \
    std::memcpy(d + i, base, (n - i) * sizeof(T));                                                                 \
  }
REWRIGHT_SLEEF_POWER(float, F32)
REWRIGHT_SLEEF_POWER(double, F64)

// max(x, 0) + log(1 + exp(-|x|))
template <class R>
void softplus(R* d, const R* a, Count n) {
  for (Count first = 0; first < n; first += kPart) {
    const Count count = first + kPart < n ? kPart : n - first;
    R small[kPart];
    for (Count i = 0; i < count; ++i) small[i] = -std::fabs(a[first + i]);
    if constexpr (std::is_same_v<R, float>)
      exp_f32(small, small, count);
    else
      sleef_exp(small, small, count);
    sleef_log1p(small, small, count);
#pragma GCC ivdep
    for (Count i = 0; i < count; ++i) d[first + i] = (a[first + i] < 0 ? R(0) : a[first + i]) + small[i];
  }
}

void sigmoid_f64(double* d, const double* a, Count n) {
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = -a[i];
  sleef_exp(d, d, n);
#pragma GCC ivdep
  for (Count i = 0; i < n; ++i) d[i] = 1.0 / (1.0 + d[i]);
}

template <class R>
typename RealLoops<R>::Unary find_unary(const Function& f) {
  using Unary = typename RealLoops<R>::Unary;
  namespace fn = functions;
  constexpr bool kFloat = std::is_same_v<R, float>;
  if constexpr (kFloat) {
    if (&f == &fn::exp) return exp_f32;
    if (&f == &fn::sigmoid) return sigmoid_f32;
    if (&f == &fn::tanh) return tanh_f32;
    if (&f == &fn::erf) return erf_f32;
    if (&f == &fn::asin) return asin_f32;
    if (&f == &fn::acos) return acos_f32;
    if (&f == &fn::atan) return atan_f32;
  } else {
    if (&f == &fn::exp) return static_cast<Unary>(sleef_exp);
    if (&f == &fn::sigmoid) return sigmoid_f64;
    if (&f == &fn::tanh) return static_cast<Unary>(sleef_tanh);
    if (&f == &fn::erf) return static_cast<Unary>(sleef_erf);
    if (&f == &fn::asin) return static_cast<Unary>(sleef_asin);
    if (&f == &fn::acos) return static_cast<Unary>(sleef_acos);
    if (&f == &fn::atan) return static_cast<Unary>(sleef_atan);
  }
  const struct {
    const Function* function;
    Unary loop;
  } table[] = {{&fn::log, sleef_log},
               {&fn::sinh, sleef_sinh},
               {&fn::cosh, sleef_cosh},
               {&fn::asinh, sleef_asinh},
               {&fn::acosh, sleef_acosh},
               {&fn::atanh, sleef_atanh},
               {&fn::sin, sleef_sin},
               {&fn::cos, sleef_cos},
               {&fn::tan, sleef_tan},
               {&fn::abs, absolute<R>},
               {&fn::sign, sign<R>},
               {&fn::sqrt, square_root<R>},
               {&fn::rsqrt, inverse_square_root<R>},
               {&fn::round_even, round_even<R>},
               {&fn::floor, round_down<R>},
               {&fn::ceil, round_up<R>},
               {&fn::softplus, softplus<R>},
               {&fn::nearest_float, nearest_float<R>},
               {&fn::power_of_two, power_of_two<R>}};
  for (const auto& entry : table)
    if (entry.function == &f) return entry.loop;
  return nullptr;
}

template <class R>
typename RealLoops<R>::Binary find_binary(const Function& f) {
  using Binary = typename RealLoops<R>::Binary;
  if (&f == &functions::pow) return static_cast<Binary>(sleef_power);
  if constexpr (std::is_same_v<R, float>) {
    if (&f == &functions::floor_modulo) return modulo_f32<true>;
    if (&f == &functions::truncated_modulo) return modulo_f32<false>;
  }
  return nullptr;
}
template <class R>
typename RealLoops<R>::Predicate find_predicate(const Function& f) {
  return &f == &functions::is_nan ? is_nan<R> : &f == &functions::is_infinite ? is_infinite<R> : nullptr;
}

}  // namespace
}  // namespace rewright::cpu
