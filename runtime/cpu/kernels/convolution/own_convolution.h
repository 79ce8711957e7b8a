// Convolutions of our own, for images whose channels stand last: directly, and by Winograd's method.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "expressions/tensor.h"
#include "runtime/cpu/kernels/image_shape.h"
#include "runtime/cpu/loops/rows.h"
#include "runtime/cpu/planning/kernel.h"
#include "runtime/cpu/planning/prepared_constants.h"

namespace rewright::cpu {

// Applied to the sums before they are stored: f(max(low, min(high, sum + bias[c] + addend))).
struct Finish {
  std::vector<float> bias;  // empty: zeros
  bool addend = false;      // the step's second input, of the result's sizes
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
  RowLoops::Unary function = nullptr;
  // Floats from a pixel of the result to the next, where it lies among other channels; 0: nothing lies in between. Served by
  // the direct, the separable, Winograd's and Fourier's convolutions.
  std::int64_t y_stride = 0;
};

// The weights, plain, and what they are made of; and what packs them: bytes, named by `how`, that `fill` fills unless they were
// made before.
struct Weights {
  using Fill = std::function<void(std::byte*)>;
  std::function<Tensor()> plain;
  ConstantOrigin origin;
  std::function<Tensor(const ConstantOrigin& origin, const std::string& how, std::size_t bytes, const Fill& fill)> prepare;

  Tensor prepared(const std::string& how, std::size_t bytes, const Fill& fill) const {
    return prepare(origin, how, bytes, fill);
  }
};

// A step with the image and the addend, if there is one, as inputs and the result as output, all with channels last.
std::unique_ptr<Kernel> make_direct_convolution(const ImageShape& shape, const Weights& weights, Finish finish, Isa isa,
                                                int threads);

// The sum of 1x1 convolutions of the same image, each with weights of its own.
std::unique_ptr<Kernel> make_parallel_convolution(const ImageShape& shape, const std::vector<Weights>& weights, Finish finish,
                                                  Isa isa, int threads);

// Groups of 4 or 8 channels, whole vectors of them, with windows of three columns.
bool is_in_small_groups(const ImageShape& shape, Isa isa);
std::unique_ptr<Kernel> make_grouped_convolution(const ImageShape& shape, const Weights& weights, Finish finish, Isa isa,
                                                 int threads);

// By channels (depthwise): as many groups and outputs as channels, windows 1, 3, 5 or 7 columns wide, steps of at most 2
// columns.
bool is_by_channel(const ImageShape& shape);
// Elements of the image below `floor` count as `floor`; those outside of it as 0.
struct DepthwiseConvolution {
  ImageShape shape;
  Weights weights;
  Finish finish;
  float floor = -std::numeric_limits<float>::infinity();
};
// The sum of some of the same image, with results of one size: the first one's addend, the last one's bounds and function.
std::unique_ptr<Kernel> make_depthwise_convolution(std::span<const DepthwiseConvolution> convolutions, Isa isa);
// A convolution by channels and a 1x1 convolution of its result to `outputs` channels, some rows at a time: the first one's
// result is not stored, and it has no addend.
std::unique_ptr<Kernel> make_separable_convolution(const DepthwiseConvolution& convolution, std::int64_t outputs,
                                                   const Weights& weights, Finish finish, Isa isa, int threads);

// A transposed convolution without groups: pixel p of the image and place k of the window belong to pixel p * stride + k *
// dilation - pad of the result. Its weights are [channels, outputs, kernel[0], kernel[1]].
std::unique_ptr<Kernel> make_transposed_convolution(const ImageShape& shape, const Weights& weights, Finish finish, Isa isa,
                                                    int threads);

// Winograd's F(tile x tile, 3 x 3), tile 2 or 4: (tile + 2)^2 multiplications for tile^2 * 9. Each element of the result comes
// from all of its window's (tile + 2)^2 pixels: one that is NaN or infinite, or overflows when it is multiplied by 100, makes
// the whole tile NaN.
bool is_winograd(const ImageShape& shape);
std::unique_ptr<Kernel> make_winograd_convolution(const ImageShape& shape, int tile, const Weights& weights, Finish finish,
                                                  Isa isa, int threads);

// By Fourier transforms of tiles of size x size pixels, a size of FourierLoops that is larger than the windows' reach. Each
// element of the result comes from all pixels of its tile: one that is NaN or infinite, or so large that it overflows when
// size^2 like it are added, makes the whole tile NaN or infinite.
bool is_fourier(const ImageShape& shape, std::int64_t size);
// Tiles of an image, and of a block: all weights are read once for each block.
struct FourierTiles {
  std::int64_t count, together;
};
FourierTiles fourier_tiles(const ImageShape& shape, std::int64_t size, Isa isa);
std::unique_ptr<Kernel> make_fourier_convolution(const ImageShape& shape, std::int64_t size, const Weights& weights,
                                                 Finish finish, Isa isa, int threads);

}  // namespace rewright::cpu
