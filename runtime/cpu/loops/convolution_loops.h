// Inner loops of convolutions over channels-last images, one table for each instruction set.
//
// Strides are in elements.
#pragma once

#include <cstdint>

#include "runtime/cpu/base/isa.h"

namespace rewright::cpu {

struct ConvolutionLoops {
  // The table for each instruction set; loops_for<ConvolutionLoops>(isa) chooses.
  static const ConvolutionLoops &baseline(), &avx2(), &avx512();

  using Count = std::int64_t;

  Count lanes;     // floats in a vector
  Count max_rows;  // pixels of a tile
  // A panel of weights has one vector or this many vectors of output channels.
  Count max_vectors;

  // Some pixels of the result times the output channels of one panel, as a matrix product:
  //   y[r, c] = max(low, min(high, bias[c] + addend[r, c] + sum over i < height, j < width and k < length of
  //                                x[r * x_stride + i * row_stride + j * column_stride + k] * w[i, j, k, c]))
  struct Tile {
    const float* x;
    Count x_stride, height, row_stride, width, column_stride, length;
    const float* w;  // [height][width][length][vectors * lanes], padded with zeros
    Count vectors;
    float* y;
    Count y_stride, rows, columns;  // rows from 1 to max_rows, columns from 1 to vectors * lanes
    const float* bias;              // [vectors * lanes], or null: zeros
    const float* addend;            // or null: zeros
    Count addend_stride;
    float low, high;
    // Memory that is needed soon: for each i, j and k one line is prefetched, this many bytes after the last. Null: none.
    const char* ahead;
    Count ahead_step;
  };
  void (*tile)(const Tile& tile);

  // Four adjacent result pixels of a convolution with groups of 4 or 8 channels (as many outputs as inputs), for one vector of
  // channels and a window of three columns. pixels[i * columns + j] is column j of row i of the windows, which have `columns` =
  // 3 * stride + 3; stride is 1 or 2. w: [height][3][group][lanes].
  struct GroupTile {
    const float* const* pixels;
    Count channel;  // first channel of the vector
    Count height, stride, group;
    const float* w;
    float* y;
    Count y_stride;
    const float* bias;    // [lanes]
    const float* addend;  // in y's layout, or null
    float low, high;
  };
  void (*group_tile)(const GroupTile& tile);

  // Result pixels of a depthwise convolution, for all channels. Pixels p and p + 1 are `pitch` apart in all tensors:
  //   y[p, c] = max(low, min(high, bias[c] + addend[p, c] + sum over i < height and j < the window's width of
  //                                max(floor, x[i * row_stride + (p * stride + j) * pitch + c]) * w[c, i, j]))
  // Columns before `begin` and from `end` on are skipped and need not exist.
  struct DepthwiseTile {
    const float* x;
    Count row_stride, height, begin, end, channels, pitch;
    const float* w;  // [vectors of channels][window][lanes], starting at the first row summed
    Count window;    // pixels of the whole window
    float* y;
    const float* bias;    // padded to a whole vector
    const float* addend;  // in y's layout, or null
    float floor, low, high;
  };
  // For tiles of 7, 4 or 1 pixels, windows of 1, 3, 5 or 7 columns, and strides of 1 or 2; otherwise null.
  using Depthwise = void (*)(const DepthwiseTile& tile);
  Depthwise (*depthwise)(Count pixels, Count width, Count stride);

  // Result pixels of a depthwise convolution with any window, for all channels. The pixels' windows are `x_stride` apart; of a
  // window only the taps inside of the image are given: tap k is at x + at[k], and has the number of[k] in the whole window:
  //   y[p, c] = max(low, min(high, bias[c] + addend[p, c] + sum over k < taps of x[p * x_stride + at[k] + c] * w[c, of[k]]))
  struct TapTile {
    const float* x;
    Count x_stride, pixels, channels;  // from 1 to most_tap_pixels pixels
    const Count *at, *of;
    Count taps;
    const float* w;  // [vectors of channels][window][lanes]
    Count window;    // pixels of the whole window
    float* y;
    Count y_stride;
    const float* bias;    // padded to a whole vector
    const float* addend;  // its pixels are `channels` apart; or null
    float low, high;
  };
  Count most_tap_pixels;
  void (*tap_tile)(const TapTile& tile);

  // Winograd's convolution F(m x m, 3 x 3) for m = 2 and 4, in the transformed domain of (m + 2) x (m + 2) points. `pixels`:
  // those of the input tile, row by row, each with `channels` elements. Point p of channel c becomes v[p * point_stride + c];
  // channels are padded to a whole vector.
  using TransformInput = void (*)(const float* const* pixels, Count channels, float* v, Count point_stride);
  // Point p of channel c is m[p * point_stride + c], padded to a whole vector. Pixels with null y are skipped; addend is null,
  // or has a pixel wherever y does.
  struct TransformedOutput {
    const float* m;
    Count point_stride, channels;
    const float* bias;  // padded to a whole vector
    float* const* y;
    const float* const* addend;
    float low, high;
  };
  using TransformOutput = void (*)(const TransformedOutput& output);
  TransformInput winograd2_input, winograd4_input;
  TransformOutput winograd2_output, winograd4_output;
};

}  // namespace rewright::cpu
