// Tile registers (AMX): eight matrices of up to 16 rows of 64 bytes, included by `*_impl.h` that are compiled for them.
// Everything has internal linkage.
//
// A product has up to 2 x 2 tiles of 32-bit sums (0 to 3), and two tiles of each operand (4 and 5, 6 and 7): rows with some
// words of four bytes, times as many rows of 16 words, which are in the order of panels of weights.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace rewright::cpu {
namespace {

constexpr std::int64_t kTileRows = 16, kTileBytes = 64, kTileWords = 16;

// Sizes of all registers for products of `rows` rows, up to 32, by `words` words, up to 16. The registers become zero. It takes
// some two hundred cycles.
inline void configure_tiles(std::int64_t rows, std::int64_t words) {
  struct alignas(64) {
    std::uint8_t palette = 1, start_row = 0, unused[14] = {};
    std::uint16_t bytes[16] = {};
    std::uint8_t rows[16] = {};
  } sizes;
  const auto set = [&](int tile, std::int64_t tile_rows, std::int64_t bytes) {
    sizes.rows[tile] = static_cast<std::uint8_t>(tile_rows);
    sizes.bytes[tile] = static_cast<std::uint16_t>(bytes);
  };
  const std::int64_t upper = rows < kTileRows ? rows : kTileRows, lower = rows - upper;
  for (int v = 0; v < 2; ++v) {
    set(v, upper, kTileBytes);
    if (lower > 0) set(2 + v, lower, kTileBytes);
    set(6 + v, words, kTileBytes);
  }
  set(4, upper, words * 4);
  if (lower > 0) set(5, lower, words * 4);
  __asm__ volatile("" : : "r"(&sizes) : "memory");  // GCC takes the instruction to read 8 of these bytes
  _tile_loadconfig(&sizes);
}

}  // namespace
}  // namespace rewright::cpu
