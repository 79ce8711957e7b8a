// Inner loops of convolutions and products of 8-bit integers, one table for each instruction set. Sums are exact.
//
// Elements are in 32-bit words: four bytes (unsigned image elements, signed weights) for processors that multiply and add four
// at once without saturation, or two 16-bit integers for all others. Where the processor multiplies tiles of bytes (AMX), a
// tile below is up to four of its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "runtime/cpu/base/isa.h"

namespace rewright::cpu {

struct QuantizedLoops {
  // The table for each instruction set; loops_for<QuantizedLoops>(isa) chooses.
  static const QuantizedLoops &baseline(), &avx2(), &avx512(), &vnni(), &amx();

  using Count = std::int64_t;

  Count lanes;        // words of a vector
  Count max_rows;     // pixels of a tile
  Count max_vectors;  // of a panel of weights
  Count unit;         // elements of a word: 4 or 2
  Count most_step;    // words that are multiplied at once: 16 with tile registers, or 1

  // A configuration of a thread's tile registers: pixels and words of a step.
  struct Registers {
    Count rows = 0, step = 0;
  };

  // Some pixels of the result times the output channels of one panel, as a matrix product:
  //   sums[r, c] = sum over i < height, j < width and k < length of dot(x[r * x_stride + i * row_stride + j * column_stride +
  //   k],
  //                                                                     w[i, j, k, c])
  struct Tile {
    const std::byte* x;
    Count x_stride, height, row_stride, width, column_stride;  // strides in bytes
    Count length;                                              // words, a multiple of `step`
    const std::int32_t* w;                                     // [height][width][length][vectors * lanes]
    Count vectors, rows;                                       // rows from 1 to max_rows
    std::int32_t* sums;                                        // [rows][max_vectors * lanes]
    // Memory that is needed soon: for each word one line is prefetched, this many bytes after the last. Null: none.
    const char* ahead;
    Count ahead_step;
    Count step;            // words that are multiplied at once, up to most_step
    Registers* registers;  // of this thread
  };
  void (*tile)(const Tile& tile);
  // Gives back what tiles of this thread have configured.
  void (*release)(Registers& registers);

  // Depthwise: pixels of the result for some vectors of channels:
  //   sums[r, c] = sum over i < height, j < width of dot(x[i][r * x_stride + j * column_stride + c], w[i, j, c])
  struct ChannelTile {
    const std::int32_t* const* x;                         // [height]
    Count first, x_stride, height, width, column_stride;  // in words; `first` is added to all of x
    const std::int32_t* w;                                // [height][width][w_stride]
    Count w_stride, rows, vectors;
    std::int32_t* sums;  // [rows][sums_stride]
    Count sums_stride;
  };
  void (*channel_tile)(const ChannelTile& tile);

  // Converts elements for the tiles: to bytes, with 128 added to signed ones, or to 16-bit integers minus the zero point.
  void (*convert)(std::byte* to, const std::byte* from, bool is_signed, int zero_point, Count n);
  // Words of `unit` pixels' elements of one channel, in converted form.
  void (*interleave)(std::int32_t* to, const std::byte* const* pixels, Count channels);

  // Only in tables of bytes:
  // Packs columns of a matrix as a panel of weights, unsigned elements less 128, with zeros behind its rows and columns, and
  // adds each of them up.
  struct Pack {
    const std::byte* from;
    Count stride, depth, columns;  // of the matrix
    bool is_signed;
    Count length, width;  // of the panel: words, columns in whole vectors
    std::int32_t *to, *sums;
  };
  void (*pack_bytes)(const Pack& pack);
  std::int32_t (*sum_of_bytes)(const std::byte* x, Count n);  // of unsigned elements
  // Terms of zero points in products of two matrices:
  //   sums[r, c] -= row_zeros[r] * column_sums[c] + row_sums[r] * column_zeros[c]
  struct Correction {
    std::int32_t* sums;
    Count sums_stride, rows, columns;  // columns are padded to whole vectors
    const std::int32_t *row_zeros, *row_sums, *column_sums, *column_zeros;
  };
  void (*subtract)(const Correction& correction);

  // Requantizes sums:
  //   t = factor[c] * (sums[r, c] + offset[c]) + shift[c]
  //   t = round(clamp(t, inner_low, inner_high)) * carry + constant[c] + addend_factor * addend[r, c], with `constant`
  //   y = round(clamp(t, low, high)) + zero_point
  // Floats are neither rounded nor shifted by the zero point; 32-bit integers are sums + offset. With `exact_factor` t is
  // computed in double.
  enum class Type { kInt32, kFloat, kUint8, kInt8 };
  struct Finish {
    const std::int32_t* sums;
    Count sums_stride, rows, columns;
    const std::int32_t* offset;
    const float *factor, *shift;
    const double* exact_factor;  // or null
    float low, high;
    const float* constant;  // or null
    float inner_low, inner_high, carry;
    const std::byte* addend;  // or null; 8-bit
    bool addend_signed;
    Count addend_stride;
    float addend_factor;
    int zero_point;
    Type type;
    std::byte* y;
    Count y_stride;  // elements
  };
  void (*finish)(const Finish& finish);

  // A window's 8-bit elements: x[z * slice_stride + r * row_stride + q * column_stride + c], for each channel c < n.
  struct Window {
    const std::byte* x;
    Count slices, slice_stride, rows, row_stride, columns, column_stride;
    bool is_signed;
  };
  void (*window_maximum)(const Window& window, Count n, std::byte* y);    // of at least one pixel
  void (*window_sum)(const Window& window, Count n, std::int32_t* sums);  // padded to a whole vector
};

// `bytes`: the table for words of four bytes; null if the processor has none up to the limit.
const QuantizedLoops* quantized_loops(Isa isa, bool bytes);

// Rows of some words are multiplied by tiles of a table, in steps of equally many words, which may be a few more.
struct TileSteps {
  using Count = QuantizedLoops::Count;
  const QuantizedLoops* loops;
  Count step, length;

  bool in_registers() const { return loops->most_step > 1; }
};
// For rows of `times` times so many words: by tile registers, if the table has them and that many pixels are worth it. The
// length, and with it the packed weights, depends on the table and the words alone.
TileSteps tile_steps(const QuantizedLoops& loops, std::int64_t words, std::int64_t times, std::int64_t pixels);

// Some pixels divided into tiles of at most `most`. Tile registers are configured for one size, so that the last tile begins
// earlier, with some pixels of the one before it.
class TileBlocks {
 public:
  using Count = QuantizedLoops::Count;
  TileBlocks(const TileSteps& steps, Count first, Count pixels, Count most)
      : first_(first), end_(first + pixels), count_((pixels + most - 1) / most), equal_(steps.in_registers()) {
    size_ = (pixels + count_ - 1) / count_;
  }

  // Pixels of a tile from `start` to `end`, of which those from `begin` on are new.
  struct Block {
    Count start, begin, end;
  };
  Count count() const { return count_; }
  Block block(Count n) const {
    const Count begin = first_ + n * size_, end = std::min(begin + size_, end_);
    return {equal_ ? end - size_ : begin, begin, end};
  }

 private:
  Count first_, end_, count_, size_ = 0;
  bool equal_;
};

// The tiles of a thread. Its registers are configured by the first one, and given back at the end.
class TileRun {
 public:
  explicit TileRun(const QuantizedLoops& loops) : loops_(loops) {}
  ~TileRun() { loops_.release(registers_); }
  TileRun(const TileRun&) = delete;
  TileRun& operator=(const TileRun&) = delete;

  QuantizedLoops::Registers* registers() { return &registers_; }

 private:
  const QuantizedLoops& loops_;
  QuantizedLoops::Registers registers_;
};

}  // namespace rewright::cpu
