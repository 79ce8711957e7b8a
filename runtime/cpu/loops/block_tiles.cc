// Compiled for AVX-512 with VNNI and AMX alone: everything but the entry has internal linkage.
#include "runtime/cpu/loops/block_tiles.h"

#define REWRIGHT_VECTOR_BYTES 64

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "runtime/cpu/base/vectors_impl.h"
#include "runtime/cpu/loops/tile_registers_impl.h"

namespace rewright::cpu {

namespace {

typedef std::uint32_t Words __attribute__((vector_size(REWRIGHT_VECTOR_BYTES)));
typedef std::int32_t Integers __attribute__((vector_size(REWRIGHT_VECTOR_BYTES)));

inline Words load_words(const void* s) {
  Words v;
  std::memcpy(&v, s, sizeof v);
  return v;
}
inline V as_floats(Words w) { return __builtin_convertvector((Integers)w, V); }
inline Words zeros_at(const std::byte* zeros) {
  return (Words)_mm512_maskz_cvtepu8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(zeros)));
}

// Some blocks of a panel: as bytes, in the order of tiles, and the sums of their products with some rows and two vectors.
constexpr Count kTiledRows = BlockTiles::kMostRows, kBlockSums = 2 * kTileRows * 2 * kLanes, kBlocksTogether = 4,
                kDepthTogether = 128;

// A block's words as bytes, a vector for each four rows and each vector of columns.
template <Count kVectors, Count kBits>
inline void unpack_bytes(std::byte* to, const std::byte* from, Count words) {
  constexpr Count kSteps = 8 / kBits, kBytes = REWRIGHT_VECTOR_BYTES;
  constexpr std::uint32_t kMask = kBits == 2 ? 0x03030303 : kBits == 4 ? 0x0f0f0f0f : 0xffffffff;
  for (Count t = 0; t < words; ++t)
    for (Count v = 0; v < kVectors; ++v) {
      const Words w = load_words(from + (t * kVectors + v) * kBytes);
      for (Count j = 0; j < kSteps; ++j) {
        const Words x = (w >> static_cast<std::uint32_t>(j * kBits)) & kMask;
        std::memcpy(to + ((t * kSteps + j) * kVectors + v) * kBytes, &x, sizeof x);
      }
    }
}

// sums[r, c] of `rows` rows of a and one or two vectors of columns: signed times unsigned bytes.
template <bool kTwoVectors>
inline void sum_block(std::int32_t* sums, const std::int8_t* a, Count a_stride, const std::byte* weights, Count weights_stride,
                      Count rows, Count words, Count step) {
  constexpr Count kSumsStride = 2 * kTileBytes;
  const bool two_rows = rows > kTileRows;
  _tile_zero(0);
  _tile_zero(1);
  if (two_rows) {
    _tile_zero(2);
    _tile_zero(3);
  }
  for (Count k = 0; k < words; k += step) {
    const std::byte* const w = weights + k * weights_stride;
    _tile_loadd(6, w, weights_stride);
    _tile_loadd(4, a + k * 4, a_stride);
    _tile_dpbsud(0, 4, 6);
    if constexpr (kTwoVectors) {
      _tile_loadd(7, w + kTileBytes, weights_stride);
      _tile_dpbsud(1, 4, 7);
    }
    if (!two_rows) continue;
    _tile_loadd(5, a + k * 4 + kTileRows * a_stride, a_stride);
    _tile_dpbsud(2, 5, 6);
    if constexpr (kTwoVectors) _tile_dpbsud(3, 5, 7);
  }
  std::int32_t* const lower = sums + kTileRows * 2 * kLanes;
  _tile_stored(0, sums, kSumsStride);
  if constexpr (kTwoVectors) _tile_stored(1, sums + kLanes, kSumsStride);
  if (two_rows) _tile_stored(2, lower, kSumsStride);
  if constexpr (kTwoVectors)
    if (two_rows) _tile_stored(3, lower + kLanes, kSumsStride);
}

// Floats of the sums of kBlocks blocks from `first` on, for the rows from `begin` to `end`; those in `sums` are of
// rows from `top` on, those in `parts` of one or two vectors out of kVectors.
template <Count kVectors, Count kBlocks, Count kColumns>
inline void add_blocks(const BlockShape& shape, const std::byte* heads, Count v, const ByteRow* rows, Count first, Count begin,
                       Count end, Count top, const std::int32_t* sums, float* parts) {
  constexpr Count kWidth = kVectors * kLanes;
  V scales[kBlocks][kColumns], zeros[kBlocks][kColumns];
#pragma GCC unroll 4
  for (Count i = 0; i < kBlocks; ++i)
#pragma GCC unroll 2
    for (Count u = 0; u < kColumns; ++u) {
      const std::byte* const head = heads + i * shape.block_bytes();
      scales[i][u] = load(reinterpret_cast<const float*>(head) + (v + u) * kLanes);
      zeros[i][u] =
          shape.has_zeros ? as_floats(zeros_at(head + kWidth * 4 + (v + u) * kLanes)) : static_cast<float>(shape.zero) - V{};
    }
  for (Count r = begin; r < end; ++r) {
    float* const part = parts + r * kWidth + v * kLanes;
    V sum[kColumns];
#pragma GCC unroll 2
    for (Count u = 0; u < kColumns; ++u) sum[u] = load(part + u * kLanes);
    const ByteRow::Block* const block = rows[r].blocks + first;
    const std::int32_t* const from = sums + (r - top) * 2 * kLanes;
#pragma GCC unroll 4
    for (Count i = 0; i < kBlocks; ++i) {
      const V all = as_floats((Words)(block[i].sum - Integers{}));
#pragma GCC unroll 2
      for (Count u = 0; u < kColumns; ++u) {
        // All these integers are exact in floats: 256 * 255 * 127 < 2^24.
        const V products = as_floats(load_words(from + i * kBlockSums + u * kLanes));
        sum[u] += (products - zeros[i][u] * all) * (scales[i][u] * block[i].step);
      }
    }
#pragma GCC unroll 2
    for (Count u = 0; u < kColumns; ++u) store(part + u * kLanes, sum[u]);
  }
}

// As multiply_bytes_by, with the same order of sums, for at most kTiledRows rows that lie equally far apart.
template <Count kVectors, Count kBits>
void multiply_tiles_by(const BlockShape& shape, const std::byte* panel, const ByteRow* rows, Count count, const float* start,
                       float* y, Count y_stride) {
  constexpr Count kSteps = 8 / kBits, kWidth = kVectors * kLanes, kSummed = 16;
  alignas(64) std::byte weights[BlockShape::kMostRows * kWidth];
  alignas(64) std::int32_t sums[kBlocksTogether * kBlockSums];
  alignas(64) float parts[kTiledRows * kWidth] = {};
  const Count blocks = shape.blocks(), words = shape.words() * kSteps, step = std::min(words, kTileWords);
  const Count together = shape.block <= kDepthTogether / kBlocksTogether ? kBlocksTogether : 1;
  const Count stride = count > 1 ? rows[1].bytes - rows[0].bytes : 0;
  // Tile registers are configured for one number of rows: the last tiles begin earlier, with some of those before.
  const Count tiles = (count + 2 * kTileRows - 1) / (2 * kTileRows), size = (count + tiles - 1) / tiles;
  for (Count r = 0; r < count; ++r)
    for (Count v = 0; v < kVectors; ++v)
      store(y + r * y_stride + v * kLanes, start == nullptr ? V{} : load(start + v * kLanes));
  configure_tiles(size, step);
  for (Count first = 0, n = 0; first < blocks; first += n) {
    n = blocks - first >= together ? together : 1;
    const std::byte* const group = panel + first * shape.block_bytes();
    for (Count i = 0; i < n; ++i)
      unpack_bytes<kVectors, kBits>(weights + i * words * kVectors * kTileBytes,
                                    group + i * shape.block_bytes() + shape.head_bytes(), shape.words());
    __asm__ volatile("" ::: "memory");  // GCC does not know that tiles are read from memory
    for (Count tile = 0; tile < tiles; ++tile) {
      const Count begin = tile * size, end = std::min(begin + size, count), top = end - size;
      const auto of_vectors = [&]<Count kColumns>(Count v, std::integral_constant<Count, kColumns>) {
        for (Count i = 0; i < n; ++i)
          sum_block<kColumns == 2>(sums + i * kBlockSums, rows[top].bytes + (first + i) * shape.block, stride,
                                   weights + (i * words * kVectors + v) * kTileBytes, kVectors * kTileBytes, size, words, step);
        const auto add = n == 1 ? add_blocks<kVectors, 1, kColumns> : add_blocks<kVectors, kBlocksTogether, kColumns>;
        add(shape, group, v, rows, first, begin, end, top, sums, parts);
      };
      for (Count v = 0; v + 2 <= kVectors; v += 2) of_vectors(v, std::integral_constant<Count, 2>());
      if constexpr (kVectors % 2 == 1) of_vectors(kVectors - 1, std::integral_constant<Count, 1>());
    }
    if ((first + n) % kSummed != 0 && first + n != blocks) continue;
    for (Count r = 0; r < count; ++r)
      for (Count v = 0; v < kVectors; ++v) {
        float *const to = y + r * y_stride + v * kLanes, *const part = parts + r * kWidth + v * kLanes;
        store(to, load(to) + load(part));
        store(part, V{});
      }
  }
  _tile_release();
}

using Multiply = void (*)(const BlockShape&, const std::byte*, const ByteRow*, Count, const float*, float*, Count);
template <Count kBits>
constexpr std::array<Multiply, BlockLoops::kMostVectors> kMultiply{multiply_tiles_by<1, kBits>, multiply_tiles_by<2, kBits>,
                                                                   multiply_tiles_by<3, kBits>, multiply_tiles_by<4, kBits>};

}  // namespace

void BlockTiles::multiply_bytes(const BlockShape& shape, const std::byte* panel, const ByteRow* rows, Count count,
                                const float* start, float* y, Count y_stride) {
  const auto v = static_cast<std::size_t>(shape.vectors - 1);
  const Multiply f = shape.bits == 2 ? kMultiply<2>[v] : shape.bits == 4 ? kMultiply<4>[v] : kMultiply<8>[v];
  f(shape, panel, rows, count, start, y, y_stride);
}

}  // namespace rewright::cpu
