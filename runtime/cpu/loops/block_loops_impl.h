// The loops of block_loops.h; see rewright_loops in CMakeLists.txt.
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "runtime/cpu/base/vectors_impl.h"
#include "runtime/cpu/loops/block_loops.h"
#include "runtime/cpu/loops/weights_ahead.h"

namespace rewright::cpu {
namespace {

typedef std::uint16_t Halves __attribute__((vector_size(REWRIGHT_VECTOR_BYTES)));
typedef std::uint32_t Words __attribute__((vector_size(REWRIGHT_VECTOR_BYTES)));
typedef std::int32_t Integers __attribute__((vector_size(REWRIGHT_VECTOR_BYTES)));
typedef std::uint8_t Bytes __attribute__((vector_size(REWRIGHT_VECTOR_BYTES / 4)));

template <class T>
inline T load_as(const void* s) {
  T v;
  std::memcpy(&v, s, sizeof v);
  return v;
}

// Adds the products of both halves of each word. Differences of sums wrap around, so words are unsigned. GCC would add products
// to each other first, and run out of registers.
inline Words dot_of(Words sum, Halves x, Halves y) {
#ifdef REWRIGHT_VNNI
  return (Words)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)x, (__m512i)y);
#elif REWRIGHT_VECTOR_BYTES == 64
  return sum + (Words)_mm512_madd_epi16((__m512i)x, (__m512i)y);
#elif REWRIGHT_VECTOR_BYTES == 32
  return sum + (Words)_mm256_madd_epi16((__m256i)x, (__m256i)y);
#else
  return sum + (Words)_mm_madd_epi16((__m128i)x, (__m128i)y);
#endif
}

inline void add_products(Words& sum, Halves x, Halves y) {
  sum = dot_of(sum, x, y);
#if REWRIGHT_VECTOR_BYTES > 16
  __asm__("" : "+v"(sum));
#else
  __asm__("" : "+x"(sum));
#endif
}

// The zero points of a vector's columns. GCC 12 would convert them one by one, and warns about what it leaves undefined without
// a mask.
inline Words zeros_at(const std::byte* zeros) {
#if REWRIGHT_VECTOR_BYTES == 64
  return (Words)_mm512_maskz_cvtepu8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(zeros)));
#elif REWRIGHT_VECTOR_BYTES == 32
  return (Words)_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(zeros)));
#else
  return __builtin_convertvector(load_as<Bytes>(zeros), Words);
#endif
}

inline V as_floats(Words w) { return __builtin_convertvector((Integers)w, V); }

constexpr float kLowUnit = 1.0f / 32768;
constexpr int kFractionBits = 23, kBias = 127, kMostExponent = 100;
constexpr float kRounding = 12582912.0f;  // 1.5 * 2^23: rounds to an integer

// ---- The left operand
// Reads a block with zeros behind the row; returns the bits of its largest absolute value.
inline std::uint32_t read_block(float* x, const float* a, Count stride, Count count, Count block) {
  std::uint32_t most = 0;
  if (stride == 1)
    std::memcpy(x, a, static_cast<std::size_t>(count) * sizeof(float));
  else
    for (Count k = 0; k < count; ++k) x[k] = a[k * stride];
  for (Count k = count; k < block; ++k) x[k] = 0;
  for (Count k = 0; k < block; ++k) most = std::max(most, std::bit_cast<std::uint32_t>(x[k]) & 0x7fffffffu);
  return most;
}

inline int exponent_of(std::uint32_t bits) { return static_cast<int>(bits >> kFractionBits) - kBias; }
inline bool can_be_integers(std::uint32_t most) { return most == 0 || std::abs(exponent_of(most)) <= kMostExponent; }

bool split(const SplitRow& row, const float* a, Count stride, Count depth, Count block) {
  constexpr int kHighBits = 14;
  alignas(64) float x[BlockShape::kMostRows];
  const Count blocks = (depth + block - 1) / block;
  for (Count b = 0; b < blocks; ++b) {
    const std::uint32_t most = read_block(x, a + b * block * stride, stride, std::min(block, depth - b * block), block);
    if (!can_be_integers(most)) return false;
    const int shift = most == 0 ? 0 : kHighBits - 1 - exponent_of(most);
    const float factor = std::bit_cast<float>(static_cast<std::uint32_t>(kBias + shift) << kFractionBits);
    const float step = std::bit_cast<float>(static_cast<std::uint32_t>(kBias - shift) << kFractionBits);
    std::int16_t *const high = row.high + b * block, *const low = row.low == nullptr ? nullptr : row.low + b * block;
    std::int32_t high_sum = 0, low_sum = 0;
    for (Count k = 0; k < block; ++k) {
      const float scaled = x[k] * factor, whole = (scaled + kRounding) - kRounding;
      high[k] = static_cast<std::int16_t>(static_cast<std::int32_t>(whole));
      high_sum += high[k];
      x[k] = (scaled - whole) * (1 / kLowUnit);
    }
    for (Count k = 0; low != nullptr && k < block; ++k) {
      low[k] = static_cast<std::int16_t>(static_cast<std::int32_t>((x[k] + kRounding) - kRounding));
      low_sum += low[k];
    }
    row.blocks[b] = {step, high_sum, low_sum};
  }
  return true;
}

// The first and the second half of each word's rows take turns.
template <Count kRows>
void interleave_halves(std::int8_t* to, const std::int8_t* from, Count count) {
  for (Count w = 0; w < count; w += kRows)
#pragma GCC unroll 8
    for (Count i = 0; i < kRows / 2; ++i) to[w + 2 * i] = from[w + i], to[w + 2 * i + 1] = from[w + kRows / 2 + i];
}

bool round_row(const ByteRow& row, const float* a, Count stride, const BlockShape& shape) {
  constexpr float kMost = 127;
  alignas(64) float x[BlockShape::kMostRows];
  alignas(64) std::int8_t bytes[BlockShape::kMostRows];
  const Count blocks = shape.blocks(), block = shape.block;
  for (Count b = 0; b < blocks; ++b) {
    const std::uint32_t most = read_block(x, a + b * block * stride, stride, std::min(block, shape.rows - b * block), block);
    if (!can_be_integers(most)) return false;
    const float largest = std::bit_cast<float>(most), factor = most == 0 ? 0 : kMost / largest;
    std::int32_t sum = 0;
    for (Count k = 0; k < block; ++k) {
      const auto whole = std::bit_cast<std::int32_t>(x[k] * factor + kRounding) - std::bit_cast<std::int32_t>(kRounding);
      bytes[k] = static_cast<std::int8_t>(whole);
      sum += whole;
    }
    row.blocks[b] = {largest / kMost, sum};
    std::int8_t* const to = row.bytes + b * block;
    shape.bits == 2   ? interleave_halves<16>(to, bytes, block)
    : shape.bits == 4 ? interleave_halves<8>(to, bytes, block)
                      : interleave_halves<4>(to, bytes, block);
  }
  return true;
}

// ---- Products
// For one row memory is the bound.
inline void ask_for_lines(const std::byte* at, Count bytes) {
  for (Count i = 0; i < bytes; i += 64) __builtin_prefetch(at + i);
}

template <Count kVectors, Count kBits, bool kPrecise>
void multiply_panel(const BlockShape& shape, const std::byte* panel, const SplitRow& row, const float* start, float* y) {
  constexpr Count kSteps = 16 / kBits, kRows = 2 * kSteps, kWidth = kVectors * kLanes, kSummed = 16;
  const Count blocks = shape.blocks(), words = shape.words(), ahead = stream_ahead;
  V total[kVectors], part[kVectors] = {};
  for (Count v = 0; v < kVectors; ++v) total[v] = start == nullptr ? V{} : load(start + v * kLanes);
  const std::int16_t *h = row.high, *l = row.low;
  for (Count b = 0; b < blocks; ++b) {
    const auto* const scales = reinterpret_cast<const float*>(panel);
    const std::byte* const zeros = panel + kWidth * 4;
    ask_for_lines(panel + ahead, shape.head_bytes());
    panel += shape.head_bytes();
    Words high[kVectors] = {}, low[kVectors] = {};
    for (Count t = 0; t < words; ++t) {
      Halves w[kVectors];
#pragma GCC unroll 4
      for (Count v = 0; v < kVectors; ++v) {
        w[v] = load_as<Halves>(panel + v * REWRIGHT_VECTOR_BYTES);
        __builtin_prefetch(panel + ahead + v * REWRIGHT_VECTOR_BYTES);
      }
      panel += kVectors * REWRIGHT_VECTOR_BYTES;
#pragma GCC unroll 8
      for (Count j = 0; j < kSteps; ++j) {
        const Halves a = (Halves)(load_as<std::uint32_t>(h + 2 * j) - Words{});
        const Halves c = kPrecise ? (Halves)(load_as<std::uint32_t>(l + 2 * j) - Words{}) : Halves{};
#pragma GCC unroll 4
        for (Count v = 0; v < kVectors; ++v) {
          Halves x = w[v] >> static_cast<std::uint16_t>(j * kBits);
          if (j + 1 < kSteps) x &= static_cast<std::uint16_t>((1 << kBits) - 1) - Halves{};
          add_products(high[v], x, a);
          if (kPrecise) add_products(low[v], x, c);
        }
      }
      h += kRows;
      l += kPrecise ? kRows : 0;
    }
    // Zero points are subtracted from exact sums, so that nothing cancels in floats.
    const SplitRow::Block& s = row.blocks[b];
    const auto high_sum = static_cast<std::uint32_t>(s.high), low_sum = static_cast<std::uint32_t>(s.low);
    const Words common = static_cast<std::uint32_t>(shape.zero) - Words{};
#pragma GCC unroll 4
    for (Count v = 0; v < kVectors; ++v) {
      const Words zero = shape.has_zeros ? zeros_at(zeros + v * kLanes) : common;
      V f = as_floats(high[v] - zero * high_sum);
      if (kPrecise) f += as_floats(low[v] - zero * low_sum) * kLowUnit;
      part[v] += f * s.step * load(scales + v * kLanes);
    }
    if (b % kSummed == kSummed - 1 || b == blocks - 1)
      for (Count v = 0; v < kVectors; ++v) total[v] += std::exchange(part[v], V{});
  }
  for (Count v = 0; v < kVectors; ++v) store(y + v * kLanes, total[v]);
}

// Several rows share the unpacked weights.
template <Count kVectors, Count kBits, Count kCount>
void multiply_panel_by(const BlockShape& shape, const std::byte* panel, const SplitRow* rows, const float* start, float* y,
                       Count y_stride) {
  constexpr Count kSteps = 16 / kBits, kRows = 2 * kSteps, kWidth = kVectors * kLanes, kSummed = 16;
  const Count blocks = shape.blocks(), words = shape.words();
  V part[kCount][kVectors] = {};
  for (Count r = 0; r < kCount; ++r)
    for (Count v = 0; v < kVectors; ++v)
      store(y + r * y_stride + v * kLanes, start == nullptr ? V{} : load(start + v * kLanes));
  for (Count b = 0; b < blocks; ++b) {
    const auto* const scales = reinterpret_cast<const float*>(panel);
    const std::byte* const zeros = panel + kWidth * 4;
    panel += shape.head_bytes();
    Words sum[kCount][kVectors] = {};
    for (Count t = 0; t < words; ++t) {
      Halves w[kVectors];
#pragma GCC unroll 4
      for (Count v = 0; v < kVectors; ++v) w[v] = load_as<Halves>(panel + v * REWRIGHT_VECTOR_BYTES);
      panel += kVectors * REWRIGHT_VECTOR_BYTES;
      const Count at = (b * words + t) * kRows;
#pragma GCC unroll 8
      for (Count j = 0; j < kSteps; ++j) {
        Halves x[kVectors];
#pragma GCC unroll 4
        for (Count v = 0; v < kVectors; ++v) {
          x[v] = w[v] >> static_cast<std::uint16_t>(j * kBits);
          if (j + 1 < kSteps) x[v] &= static_cast<std::uint16_t>((1 << kBits) - 1) - Halves{};
        }
#pragma GCC unroll 4
        for (Count r = 0; r < kCount; ++r) {
          const Halves a = (Halves)(load_as<std::uint32_t>(rows[r].high + at + 2 * j) - Words{});
#pragma GCC unroll 4
          for (Count v = 0; v < kVectors; ++v) add_products(sum[r][v], x[v], a);
        }
      }
    }
#pragma GCC unroll 4
    for (Count r = 0; r < kCount; ++r) {
      const SplitRow::Block& s = rows[r].blocks[b];
      const auto all = static_cast<std::uint32_t>(s.high);
      const Words common = all * static_cast<std::uint32_t>(shape.zero) - Words{};
#pragma GCC unroll 4
      for (Count v = 0; v < kVectors; ++v) {
        const Words zero = shape.has_zeros ? zeros_at(zeros + v * kLanes) * all : common;
        part[r][v] += as_floats(sum[r][v] - zero) * (load(scales + v * kLanes) * s.step);
      }
    }
    if (b % kSummed != kSummed - 1 && b != blocks - 1) continue;
    for (Count r = 0; r < kCount; ++r)
      for (Count v = 0; v < kVectors; ++v) {
        float* const to = y + r * y_stride + v * kLanes;
        store(to, load(to) + std::exchange(part[r][v], V{}));
      }
  }
}

// ---- Products of bytes
#if REWRIGHT_VECTOR_BYTES > 16
// Sums of a word's products: by lanes of 32 bits where the processor has such an instruction; else by lanes of 16 bits, which
// hold those of one word of weights of up to 4 bits (4 * 15 * 127).
#ifdef REWRIGHT_VNNI
inline void add_byte_products(Words& sum, Words x, std::uint32_t a) {
  sum = (Words)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)x, _mm512_set1_epi32(static_cast<int>(a)));
}
inline void keep(Words& w) { __asm__("" : "+v"(w)); }
// Sums, and the weights of a step, stay in registers.
constexpr std::array<Count, BlockLoops::kMostVectors + 1> kByteRows{0, 6, 6, 6, 4};
constexpr Count kByteBits = 8;
#elif REWRIGHT_VECTOR_BYTES == 64
inline Words byte_products(Words x, std::uint32_t a) {
  return (Words)_mm512_maddubs_epi16((__m512i)x, _mm512_set1_epi32(static_cast<int>(a)));
}
inline Words added_pairs(Words x) { return (Words)_mm512_madd_epi16((__m512i)x, _mm512_set1_epi16(1)); }
constexpr std::array<Count, BlockLoops::kMostVectors + 1> kByteRows{0, 6, 6, 4, 4};
constexpr Count kByteBits = 4;
#else
inline Words byte_products(Words x, std::uint32_t a) {
  return (Words)_mm256_maddubs_epi16((__m256i)x, _mm256_set1_epi32(static_cast<int>(a)));
}
inline Words added_pairs(Words x) { return (Words)_mm256_madd_epi16((__m256i)x, _mm256_set1_epi16(1)); }
constexpr std::array<Count, BlockLoops::kMostVectors + 1> kByteRows{0, 6, 4, 2, 2};
constexpr Count kByteBits = 4;
#endif

template <Count kVectors, Count kBits, Count kCount>
void multiply_bytes_by(const BlockShape& shape, const std::byte* panel, const ByteRow* rows, const float* start, float* y,
                       Count y_stride) {
  constexpr Count kSteps = 8 / kBits, kWidth = kVectors * kLanes, kSummed = 16;
  constexpr std::uint32_t kMask = kBits == 2 ? 0x03030303 : kBits == 4 ? 0x0f0f0f0f : 0xffffffff;
  const Count blocks = shape.blocks(), words = shape.words(), ahead = stream_ahead;
  V part[kCount][kVectors] = {};
  for (Count r = 0; r < kCount; ++r)
    for (Count v = 0; v < kVectors; ++v)
      store(y + r * y_stride + v * kLanes, start == nullptr ? V{} : load(start + v * kLanes));
  Count at = 0;
  for (Count b = 0; b < blocks; ++b) {
    const auto* const scales = reinterpret_cast<const float*>(panel);
    const std::byte* const zeros = panel + kWidth * 4;
    if (kCount == 1) ask_for_lines(panel + ahead, shape.head_bytes());
    panel += shape.head_bytes();
    Words sum[kCount][kVectors];
#pragma GCC unroll 8
    for (Count r = 0; r < kCount; ++r)  // zero points: here, or where the sums have become floats
#pragma GCC unroll 4
      for (Count v = 0; v < kVectors; ++v)
        sum[r][v] = static_cast<std::uint32_t>(shape.has_zeros ? 0 : -shape.zero * rows[r].blocks[b].sum) - Words{};
    for (Count t = 0; t < words; ++t) {
      Words w[kVectors];
#pragma GCC unroll 4
      for (Count v = 0; v < kVectors; ++v) {
        w[v] = load_as<Words>(panel + v * REWRIGHT_VECTOR_BYTES);
        if (kCount == 1) __builtin_prefetch(panel + ahead + v * REWRIGHT_VECTOR_BYTES);
      }
      panel += kVectors * REWRIGHT_VECTOR_BYTES;
#ifdef REWRIGHT_VNNI
#pragma GCC unroll 4
      for (Count j = 0; j < kSteps; ++j, at += 4) {
        Words x[kVectors];
#pragma GCC unroll 4
        for (Count v = 0; v < kVectors; ++v) {
          x[v] = (w[v] >> static_cast<std::uint32_t>(j * kBits)) & kMask;
          keep(x[v]);
        }
#pragma GCC unroll 8
        for (Count r = 0; r < kCount; ++r) {
          const auto a = load_as<std::uint32_t>(rows[r].bytes + at);
#pragma GCC unroll 4
          for (Count v = 0; v < kVectors; ++v) add_byte_products(sum[r][v], x[v], a);
        }
      }
#else
#pragma GCC unroll 4
      for (Count v = 0; v < kVectors; ++v) {
        Words x[kSteps];
        for (Count j = 0; j < kSteps; ++j) x[j] = (w[v] >> static_cast<std::uint32_t>(j * kBits)) & kMask;
#pragma GCC unroll 8
        for (Count r = 0; r < kCount; ++r) {
          Halves products{};
          for (Count j = 0; j < kSteps; ++j)
            products += (Halves)byte_products(x[j], load_as<std::uint32_t>(rows[r].bytes + at + 4 * j));
          sum[r][v] += added_pairs((Words)products);
        }
      }
      at += 4 * kSteps;
#endif
    }
#pragma GCC unroll 4
    for (Count v = 0; v < kVectors; ++v) {
      const V scale = load(scales + v * kLanes);
      const V zero = shape.has_zeros ? as_floats(zeros_at(zeros + v * kLanes)) : V{};
#pragma GCC unroll 8
      for (Count r = 0; r < kCount; ++r) {
        // All these integers are exact in floats: 256 * 255 * 127 < 2^24.
        const ByteRow::Block& block = rows[r].blocks[b];
        part[r][v] += (as_floats(sum[r][v]) - zero * static_cast<float>(block.sum)) * (scale * block.step);
      }
    }
    if (b % kSummed != kSummed - 1 && b != blocks - 1) continue;
    for (Count r = 0; r < kCount; ++r)
      for (Count v = 0; v < kVectors; ++v) {
        float* const to = y + r * y_stride + v * kLanes;
        store(to, load(to) + std::exchange(part[r][v], V{}));
      }
  }
}
#else
constexpr std::array<Count, BlockLoops::kMostVectors + 1> kByteRows{};
constexpr Count kByteBits = 0;
#endif

template <Count kVectors, Count kBits>
void unpack_panel(const BlockShape& shape, const std::byte* panel, Count first, Count last, float* y) {
  constexpr Count kSteps = 16 / kBits, kRows = 2 * kSteps, kWidth = kVectors * kLanes;
  const Words common = static_cast<std::uint32_t>(shape.zero) - Words{};
  for (Count r = first; r < last; r += kRows) {
    const Count b = r / shape.block, t = r % shape.block / kRows;
    const std::byte* const block = panel + b * shape.block_bytes();
    const auto* const scales = reinterpret_cast<const float*>(block);
    const std::byte *const zeros = block + kWidth * 4, *const words =
                                                           block + shape.head_bytes() + t * kVectors * REWRIGHT_VECTOR_BYTES;
    for (Count v = 0; v < kVectors; ++v) {
      const Words w = load_as<Words>(words + v * REWRIGHT_VECTOR_BYTES);
      const V scale = load(scales + v * kLanes);
      const Words zero = shape.has_zeros ? zeros_at(zeros + v * kLanes) : common;
      float* const to = y + (r - first) * kWidth + v * kLanes;
#pragma GCC unroll 16
      for (Count i = 0; i < kRows; ++i) {
        if (r + i >= last) break;
        const Words q = (w >> static_cast<std::uint32_t>(i % 2 * 16 + i / 2 * kBits)) & ((1u << kBits) - 1);
        store(to + i * kWidth, as_floats(q - zero) * scale);
      }
    }
  }
}

// ---- By the vectors of a panel and the bits
using Multiply = void (*)(const BlockShape&, const std::byte*, const SplitRow&, const float*, float*);
using Unpack = void (*)(const BlockShape&, const std::byte*, Count, Count, float*);

template <Count kBits, bool kPrecise>
constexpr std::array<Multiply, 4> kMultiply{multiply_panel<1, kBits, kPrecise>, multiply_panel<2, kBits, kPrecise>,
                                            multiply_panel<3, kBits, kPrecise>, multiply_panel<4, kBits, kPrecise>};
using MultiplyRows = void (*)(const BlockShape&, const std::byte*, const SplitRow*, const float*, float*, Count);
template <Count kVectors, Count kBits>
constexpr std::array<MultiplyRows, BlockLoops::kMostRows> kMultiplyBy{
    multiply_panel_by<kVectors, kBits, 1>, multiply_panel_by<kVectors, kBits, 2>, multiply_panel_by<kVectors, kBits, 3>,
    multiply_panel_by<kVectors, kBits, 4>};
template <Count kBits>
constexpr std::array<std::array<MultiplyRows, BlockLoops::kMostRows>, 4> kMultiplyRows{
    kMultiplyBy<1, kBits>, kMultiplyBy<2, kBits>, kMultiplyBy<3, kBits>, kMultiplyBy<4, kBits>};
template <Count kBits>
constexpr std::array<Unpack, 4> kUnpack{unpack_panel<1, kBits>, unpack_panel<2, kBits>, unpack_panel<3, kBits>,
                                        unpack_panel<4, kBits>};

// Rows of one part are bytes where these are offered.
template <Count kBits>
Multiply multiplication(bool precise, std::size_t v) {
  if constexpr (kBits > kByteBits)
    if (!precise) return kMultiply<kBits, false>[v];
  return kMultiply<kBits, true>[v];
}
template <Count kBits>
MultiplyRows multiplication_of_rows(std::size_t v, std::size_t n) {
  if constexpr (kBits > kByteBits) return kMultiplyRows<kBits>[v][n];
  return nullptr;
}

void multiply(const BlockShape& shape, const std::byte* panel, const SplitRow& row, const float* start, float* y) {
  const auto v = static_cast<std::size_t>(shape.vectors - 1);
  const bool precise = row.low != nullptr;
  const Multiply f = shape.bits == 2   ? multiplication<2>(precise, v)
                     : shape.bits == 4 ? multiplication<4>(precise, v)
                                       : multiplication<8>(precise, v);
  f(shape, panel, row, start, y);
}

void multiply_rows(const BlockShape& shape, const std::byte* panel, const SplitRow* rows, Count count, const float* start,
                   float* y, Count y_stride) {
  const auto v = static_cast<std::size_t>(shape.vectors - 1), n = static_cast<std::size_t>(count - 1);
  const MultiplyRows f = shape.bits == 2   ? multiplication_of_rows<2>(v, n)
                         : shape.bits == 4 ? multiplication_of_rows<4>(v, n)
                                           : multiplication_of_rows<8>(v, n);
  f(shape, panel, rows, start, y, y_stride);
}

#if REWRIGHT_VECTOR_BYTES > 16
using MultiplyBytes = void (*)(const BlockShape&, const std::byte*, const ByteRow*, const float*, float*, Count);
using MultiplyBytesBy = std::array<MultiplyBytes, BlockLoops::kMostByteRows>;
template <Count kVectors, Count kBits, Count... kLess>
constexpr MultiplyBytesBy byte_products_by(std::integer_sequence<Count, kLess...>) {
  return {multiply_bytes_by<kVectors, kBits, kLess + 1>...};
}
template <Count kVectors, Count kBits>
constexpr MultiplyBytesBy kMultiplyBytesBy =
    byte_products_by<kVectors, kBits>(std::make_integer_sequence<Count, kByteRows[kVectors]>{});
template <Count kBits>
MultiplyBytes byte_multiplication(std::size_t v, std::size_t n) {
  if constexpr (kBits > kByteBits) {
    return nullptr;
  } else {
    constexpr std::array<MultiplyBytesBy, BlockLoops::kMostVectors> kByVectors{
        kMultiplyBytesBy<1, kBits>, kMultiplyBytesBy<2, kBits>, kMultiplyBytesBy<3, kBits>, kMultiplyBytesBy<4, kBits>};
    return kByVectors[v][n];
  }
}

void multiply_bytes(const BlockShape& shape, const std::byte* panel, const ByteRow* rows, Count count, const float* start,
                    float* y, Count y_stride) {
  const auto v = static_cast<std::size_t>(shape.vectors - 1), n = static_cast<std::size_t>(count - 1);
  const MultiplyBytes f = shape.bits == 2   ? byte_multiplication<2>(v, n)
                          : shape.bits == 4 ? byte_multiplication<4>(v, n)
                                            : byte_multiplication<8>(v, n);
  f(shape, panel, rows, start, y, y_stride);
}
#else
constexpr decltype(BlockLoops::multiply_bytes) multiply_bytes = nullptr;
#endif

void unpack(const BlockShape& shape, const std::byte* panel, Count first, Count last, float* y) {
  const auto v = static_cast<std::size_t>(shape.vectors - 1);
  const Unpack f = shape.bits == 2 ? kUnpack<2>[v] : shape.bits == 4 ? kUnpack<4>[v] : kUnpack<8>[v];
  f(shape, panel, first, last, y);
}

constexpr BlockLoops kTable{kLanes,
                            split,
                            multiply,
                            multiply_rows,
                            kByteBits,
                            round_row,
                            {kByteRows[0], kByteRows[1], kByteRows[2], kByteRows[3], kByteRows[4]},
                            multiply_bytes,
                            unpack};

}  // namespace

const BlockLoops& BlockLoops::REWRIGHT_ISA() { return kTable; }

}  // namespace rewright::cpu
