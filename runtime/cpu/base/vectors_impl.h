// Vectors of floats, for loops that are compiled once for each instruction set: included by their `*_impl.h`, after
// REWRIGHT_VECTOR_BYTES. Everything has internal linkage, so that code for a newer processor cannot be linked elsewhere.
#pragma once

#include <cstdint>
#include <cstring>
#if REWRIGHT_VECTOR_BYTES > 16
#include <immintrin.h>
#endif

namespace rewright::cpu {
namespace {

using Count = std::int64_t;

template <std::size_t kBytes>
struct Vector {
  typedef float Type __attribute__((vector_size(kBytes)));
};
using V = Vector<REWRIGHT_VECTOR_BYTES>::Type;
constexpr Count kLanes = REWRIGHT_VECTOR_BYTES / sizeof(float);

inline V load(const float* s) {
  V v;
  std::memcpy(&v, s, sizeof v);
  return v;
}
inline void store(float* d, V v) { std::memcpy(d, &v, sizeof v); }

// Otherwise GCC reloads a vector for each multiplication by it, and loads become the limit: 2 rows by 4 vectors of AVX2 then
// take 5.1 cycles for each k instead of 4.
inline void keep_in_register(V& v) {
#if REWRIGHT_VECTOR_BYTES > 16
  __asm__("" : "+v"(v));
#else
  __asm__("" : "+x"(v));
#endif
}

// The first n lanes, n < kLanes; with masks if the processor has them. The others are loaded as zeros.
#if REWRIGHT_VECTOR_BYTES == 64
inline __mmask16 lanes_below(Count n) { return static_cast<__mmask16>((1u << n) - 1); }
inline V load_some(const float* s, Count n) { return (V)_mm512_maskz_loadu_ps(lanes_below(n), s); }
inline void store_some(float* d, V v, Count n) { _mm512_mask_storeu_ps(d, lanes_below(n), (__m512)v); }
#elif REWRIGHT_VECTOR_BYTES == 32
inline __m256i lanes_below(Count n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline V load_some(const float* s, Count n) { return (V)_mm256_maskload_ps(s, lanes_below(n)); }
inline void store_some(float* d, V v, Count n) { _mm256_maskstore_ps(d, lanes_below(n), (__m256)v); }
#else
inline V load_some(const float* s, Count n) {
  V v{};
  std::memcpy(&v, s, static_cast<std::size_t>(n) * sizeof(float));
  return v;
}
inline void store_some(float* d, V v, Count n) { std::memcpy(d, &v, static_cast<std::size_t>(n) * sizeof(float)); }
#endif

}  // namespace
}  // namespace rewright::cpu
