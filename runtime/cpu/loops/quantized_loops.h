// Inner loops of convolutions and products of 8-bit integers, one table for each instruction set. Sums are exact.
//
// Elements are in 32-bit words: four bytes (unsigned image elements, signed weights) for processors that multiply and add four
// at once without saturation, or two 16-bit integers for all others.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/cpu/base/isa.h"

namespace rewright::cpu {

struct QuantizedLoops {
  // The table for each instruction set; loops_for<QuantizedLoops>(isa) chooses.
  static const QuantizedLoops &baseline(), &avx2(), &avx512(), &vnni();

  using Count = std::int64_t;

  Count lanes;        // words of a vector
  Count max_rows;     // pixels of a tile
  Count max_vectors;  // of a panel of weights
  Count unit;         // elements of a word: 4 or 2

  // Some pixels of the result times the output channels of one panel, as a matrix product:
  //   sums[r, c] = sum over i < height, j < width and k < length of dot(x[r * x_stride + i * row_stride + j * column_stride +
  //   k],
  //                                                                     w[i, j, k, c])
  struct Tile {
    const std::byte* x;
    Count x_stride, height, row_stride, width, column_stride;  // strides in bytes
    Count length;                                              // words
    const std::int32_t* w;                                     // [height][width][length][vectors * lanes]
    Count vectors, rows;                                       // rows from 1 to max_rows
    std::int32_t* sums;                                        // [rows][max_vectors * lanes]
    // Memory that is needed soon: for each word one line is prefetched, this many bytes after the last. Null: none.
    const char* ahead;
    Count ahead_step;
  };
  void (*tile)(const Tile& tile);

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

}  // namespace rewright::cpu
