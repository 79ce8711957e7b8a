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

// The zero points of a vector's columns.
inline Words zeros_at(const std::byte* zeros) { return __builtin_convertvector(load_as<Bytes>(zeros), Words); }

inline V as_floats(Words w) { return __builtin_convertvector((Integers)w, V); }

constexpr float kLowUnit = 1.0f / 32768;

// ---- The left operand
bool split(const SplitRow& row, const float* a, Count stride, Count depth, Count block) {
  constexpr int kFractionBits = 23, kBias = 127, kHighBits = 14, kMostExponent = 100;
  constexpr float kRounding = 12582912.0f;  // 1.5 * 2^23: rounds to an integer
  alignas(64) float x[BlockShape::kMostRows];
  const Count blocks = (depth + block - 1) / block;
  for (Count b = 0; b < blocks; ++b) {
    const Count count = std::min(block, depth - b * block);
    std::uint32_t most = 0;
    for (Count k = 0; k < count; ++k) x[k] = a[(b * block + k) * stride];
    for (Count k = count; k < block; ++k) x[k] = 0;
    for (Count k = 0; k < block; ++k) most = std::max(most, std::bit_cast<std::uint32_t>(x[k]) & 0x7fffffffu);
    const int exponent = static_cast<int>(most >> kFractionBits) - kBias;
    if (most != 0 && std::abs(exponent) > kMostExponent) return false;
    const int shift = most == 0 ? 0 : kHighBits - 1 - exponent;
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

// ---- Products
template <Count kVectors, Count kBits, bool kPrecise>
void multiply_panel(const BlockShape& shape, const std::byte* panel, const SplitRow& row, const float* start, float* y) {
  constexpr Count kSteps = 16 / kBits, kRows = 2 * kSteps, kWidth = kVectors * kLanes, kSummed = 16;
  const Count blocks = shape.blocks(), words = shape.words();
  V total[kVectors], part[kVectors] = {};
  for (Count v = 0; v < kVectors; ++v) total[v] = start == nullptr ? V{} : load(start + v * kLanes);
  const std::int16_t *h = row.high, *l = row.low;
  for (Count b = 0; b < blocks; ++b) {
    const auto* const scales = reinterpret_cast<const float*>(panel);
    const std::byte* const zeros = panel + kWidth * 4;
    panel += shape.head_bytes();
    Words high[kVectors] = {}, low[kVectors] = {};
    for (Count t = 0; t < words; ++t) {
      Halves w[kVectors];
#pragma GCC unroll 4
      for (Count v = 0; v < kVectors; ++v) w[v] = load_as<Halves>(panel + v * REWRIGHT_VECTOR_BYTES);
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

template <Count kBits>
Multiply multiplication(bool precise, std::size_t v) {
  return precise ? kMultiply<kBits, true>[v] : kMultiply<kBits, false>[v];
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
  const MultiplyRows f = shape.bits == 2   ? kMultiplyRows<2>[v][n]
                         : shape.bits == 4 ? kMultiplyRows<4>[v][n]
                                           : kMultiplyRows<8>[v][n];
  f(shape, panel, rows, start, y, y_stride);
}

void unpack(const BlockShape& shape, const std::byte* panel, Count first, Count last, float* y) {
  const auto v = static_cast<std::size_t>(shape.vectors - 1);
  const Unpack f = shape.bits == 2 ? kUnpack<2>[v] : shape.bits == 4 ? kUnpack<4>[v] : kUnpack<8>[v];
  f(shape, panel, first, last, y);
}

constexpr BlockLoops kTable{kLanes, split, multiply, multiply_rows, unpack};

}  // namespace

const BlockLoops& BlockLoops::REWRIGHT_ISA() { return kTable; }

}  // namespace rewright::cpu
