// Our own convolutions for channels-last images and volumes: direct, and by transforms.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "expressions/tensor.h"
#include "runtime/cpu/kernels/image_shape.h"
#include "runtime/cpu/kernels/result_function.h"
#include "runtime/cpu/planning/kernel.h"
#include "runtime/cpu/planning/prepared_constants.h"

namespace rewright::cpu {

// Applied to the sums before they are stored: f(max(low, min(high, sum + bias[c] + addend))).
struct Finish {
  std::vector<float> bias;  // empty: zeros
  bool addend = false;      // the step's second input, with the result's sizes
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
  ResultFunction function;
  // Stride between the result's pixels in floats, if they are among other channels; 0: contiguous. Supported by the direct,
  // separable, Winograd's and Fourier's convolutions, and by depthwise ones with any window.
  std::int64_t y_stride = 0;
};

// The weights as a plain tensor with their origin, and a function that returns packed bytes: named by `how`, and written by
// `fill` unless they exist already.
struct Weights {
  using Fill = std::function<void(std::byte*)>;
  std::function<Tensor()> plain;
  ConstantOrigin origin;
  std::function<Tensor(const ConstantOrigin& origin, const std::string& how, std::size_t bytes, const Fill& fill)> prepare;

  Tensor prepared(const std::string& how, std::size_t bytes, const Fill& fill) const {
    return prepare(origin, how, bytes, fill);
  }
};

// A step with the image and the addend (if any) as inputs and the result as output, all channels-last.
std::unique_ptr<Kernel> make_direct_convolution(const ImageShape& shape, const Weights& weights, Finish finish, Isa isa,
                                                int threads);
std::unique_ptr<Kernel> make_volume_convolution(const VolumeShape& shape, const Weights& weights, Finish finish, Isa isa,
                                                int threads);

// The sum of 1x1 convolutions of the same image, each with weights of its own.
std::unique_ptr<Kernel> make_parallel_convolution(const ImageShape& shape, const std::vector<Weights>& weights, Finish finish,
                                                  Isa isa, int threads);

// Groups of 4 or 8 channels that fill vectors, with windows of three columns.
bool is_in_small_groups(const ImageShape& shape, Isa isa);
std::unique_ptr<Kernel> make_grouped_convolution(const ImageShape& shape, const Weights& weights, Finish finish, Isa isa,
                                                 int threads);

// Depthwise: as many groups and outputs as channels, windows of 1, 3, 5 or 7 columns, column strides of at most 2, and of 1
// where columns have a dilation.
bool is_by_channel(const ImageShape& shape);
// Elements of the image below `floor` count as `floor`; those outside as 0.
struct DepthwiseConvolution {
  ImageShape shape;
  Weights weights;
  Finish finish;
  float floor = -std::numeric_limits<float>::infinity();
};
// The sum of convolutions of the same image with results of one size. Uses the first one's addend, and the last one's bounds
// and function.
std::unique_ptr<Kernel> make_depthwise_convolution(std::span<const DepthwiseConvolution> convolutions, Isa isa);
double depthwise_nanoseconds(const ImageShape& shape);  // on one thread
// Depthwise, with any window, strides and dilations, over three axes as well.
std::unique_ptr<Kernel> make_window_convolution(const VolumeShape& shape, const Weights& weights, Finish finish, Isa isa);
// Convolutions of few channels in each group, with all tensors row-major, and their time on one thread, for vectors of so many
// lanes.
bool has_few_channels(const ImageShape& shape);
std::unique_ptr<Kernel> make_plain_convolution(const DepthwiseConvolution& convolution, Isa isa);
double plain_convolution_nanoseconds(const ImageShape& shape, std::int64_t lanes);
// A depthwise convolution followed by a 1x1 convolution to `outputs` channels, some rows at a time. The result between is not
// stored and has no addend.
std::unique_ptr<Kernel> make_separable_convolution(const DepthwiseConvolution& convolution, std::int64_t outputs,
                                                   const Weights& weights, Finish finish, Isa isa, int threads);

// A transposed convolution without groups: pixel p of the image and position k of the window contribute to pixel p * stride + k
// * dilation - pad of the result. Its weights are [channels, outputs, kernel[0], kernel[1]].
std::unique_ptr<Kernel> make_transposed_convolution(const ImageShape& shape, const Weights& weights, Finish finish, Isa isa,
                                                    int threads);

// Winograd's F(tile x tile, 3 x 3), tile 2 or 4: (tile + 2)^2 multiplications instead of tile^2 * 9. Each result depends on all
// (tile + 2)^2 pixels of its tile: a pixel that is NaN or infinite, or overflows when multiplied by 100, makes the whole tile
// NaN.
bool is_winograd(const ImageShape& shape);
std::unique_ptr<Kernel> make_winograd_convolution(const ImageShape& shape, int tile, const Weights& weights, Finish finish,
                                                  Isa isa, int threads);

// By Fourier transforms of tiles of size x size pixels, where size is one of FourierLoops and larger than the windows' extent.
// Each result depends on all pixels of its tile: a pixel that is NaN or infinite, or overflows when multiplied by size^2, makes
// the whole tile NaN or infinite.
bool is_fourier(const ImageShape& shape, std::int64_t size);
// Tiles of an image, and of a block: all weights are read once for each block.
struct FourierTiles {
  std::int64_t count, together;
};
FourierTiles fourier_tiles(const ImageShape& shape, std::int64_t size, Isa isa);
std::unique_ptr<Kernel> make_fourier_convolution(const ImageShape& shape, std::int64_t size, const Weights& weights,
                                                 Finish finish, Isa isa, int threads);

}  // namespace rewright::cpu
