// Transposes squares in registers, for loops that are compiled once for each instruction set: included by their
// `*_impl.h`. Everything has internal linkage.
#pragma once

#include <immintrin.h>
#include <cstdint>

namespace rewright::cpu {
namespace {

// d[r * d_stride + c] = s[r + c * s_stride], r and c < kSquare
#ifdef __AVX__
constexpr std::int64_t kSquare = 8;
inline void transpose_square(float* d, std::int64_t d_stride, const float* s, std::int64_t s_stride) {
  __m256 a[8], b[8];
  for (int k = 0; k < 8; ++k) a[k] = _mm256_loadu_ps(s + k * s_stride);
  for (int k = 0; k < 8; k += 2) {  // pairs, then fours, then halves change places
    b[k] = _mm256_unpacklo_ps(a[k], a[k + 1]);
    b[k + 1] = _mm256_unpackhi_ps(a[k], a[k + 1]);
  }
  for (int k = 0; k < 8; k += 4) {
    a[k] = _mm256_shuffle_ps(b[k], b[k + 2], 0x44);
    a[k + 1] = _mm256_shuffle_ps(b[k], b[k + 2], 0xEE);
    a[k + 2] = _mm256_shuffle_ps(b[k + 1], b[k + 3], 0x44);
    a[k + 3] = _mm256_shuffle_ps(b[k + 1], b[k + 3], 0xEE);
  }
  for (int k = 0; k < 4; ++k) {
    _mm256_storeu_ps(d + k * d_stride, _mm256_permute2f128_ps(a[k], a[k + 4], 0x20));
    _mm256_storeu_ps(d + (k + 4) * d_stride, _mm256_permute2f128_ps(a[k], a[k + 4], 0x31));
  }
}
#else
constexpr std::int64_t kSquare = 4;
inline void transpose_square(float* d, std::int64_t d_stride, const float* s, std::int64_t s_stride) {
  __m128 a[4];
  for (int k = 0; k < 4; ++k) a[k] = _mm_loadu_ps(s + k * s_stride);
  _MM_TRANSPOSE4_PS(a[0], a[1], a[2], a[3]);
  for (int k = 0; k < 4; ++k) _mm_storeu_ps(d + k * d_stride, a[k]);
}
#endif

constexpr std::int64_t kSmallSquare = 8;  // of elements of one or two bytes
inline void transpose_square(std::int16_t* d, std::int64_t d_stride, const std::int16_t* s, std::int64_t s_stride) {
  __m128i a[8], b[8];
  for (int k = 0; k < 8; ++k) a[k] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(s + k * s_stride));
  for (int k = 0; k < 8; k += 2) {  // as above
    b[k] = _mm_unpacklo_epi16(a[k], a[k + 1]);
    b[k + 1] = _mm_unpackhi_epi16(a[k], a[k + 1]);
  }
  for (int k = 0; k < 8; k += 4) {
    a[k] = _mm_unpacklo_epi32(b[k], b[k + 2]);
    a[k + 1] = _mm_unpackhi_epi32(b[k], b[k + 2]);
    a[k + 2] = _mm_unpacklo_epi32(b[k + 1], b[k + 3]);
    a[k + 3] = _mm_unpackhi_epi32(b[k + 1], b[k + 3]);
  }
  for (int k = 0; k < 4; ++k) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(d + 2 * k * d_stride), _mm_unpacklo_epi64(a[k], a[k + 4]));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(d + (2 * k + 1) * d_stride), _mm_unpackhi_epi64(a[k], a[k + 4]));
  }
}
inline void transpose_square(std::int8_t* d, std::int64_t d_stride, const std::int8_t* s, std::int64_t s_stride) {
  __m128i a[8], b[4];
  for (int k = 0; k < 8; ++k) a[k] = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(s + k * s_stride));
  for (int k = 0; k < 4; ++k) b[k] = _mm_unpacklo_epi8(a[2 * k], a[2 * k + 1]);
  for (int k = 0; k < 4; k += 2) {
    a[k] = _mm_unpacklo_epi16(b[k], b[k + 1]);
    a[k + 1] = _mm_unpackhi_epi16(b[k], b[k + 1]);
  }
  for (int k = 0; k < 2; ++k) {
    b[2 * k] = _mm_unpacklo_epi32(a[k], a[k + 2]);
    b[2 * k + 1] = _mm_unpackhi_epi32(a[k], a[k + 2]);
  }
  for (int k = 0; k < 4; ++k) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(d + 2 * k * d_stride), b[k]);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(d + (2 * k + 1) * d_stride), _mm_unpackhi_epi64(b[k], b[k]));
  }
}

}  // namespace
}  // namespace rewright::cpu
