// Chooses the kernel for a convolution.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/cpu/kernels/image_shape.h"
#include "runtime/session.h"

namespace rewright::cpu {

// kByChannel: depthwise with any window (make_window_convolution).
enum class ConvolutionMethod { kLibrary, kDirect, kGrouped, kWinograd2, kWinograd4, kFourier, kByChannel };

// The fastest method by an estimate: multiplications at the kernels' rate, plus the costs of transforms (Winograd's and
// Fourier's): the transforms themselves, and larger weights from beyond the second-level cache. It depends only on its
// arguments, so results round equally everywhere. Without `transforms`, none of these.
ConvolutionMethod fastest_convolution(const ImageShape& shape, Isa isa, bool transforms = true);

// The method for one of many sizes. All of them need at most two forms of the weights: our own direct convolution's, or for
// depthwise ones that by channel, and that of Winograd's F(4x4) or of Fourier's method where it gains enough to be kept beside
// the other. The library's kernels would have a form, and code, for every few sizes. Depends on nothing but its arguments
// either.
ConvolutionMethod open_convolution(const ImageShape& shape, Isa isa, bool transforms = true);

// The tile size for Fourier's method, by the same estimate; 0 if it cannot be used, or its weights would need too much memory.
std::int64_t fourier_size(const ImageShape& shape, Isa isa);

// The methods that the same estimate puts below twice the fastest, always including the library's.
std::vector<ConvolutionMethod> close_convolutions(const ImageShape& shape, Isa isa, bool transforms = true);

// The name in the cost database.
std::string_view name(ConvolutionMethod method);

// Is a 1x1 convolution short enough to be fused with the depthwise one before it? Longer ones are faster in the library's
// kernels.
bool pays_to_join(const ImageShape& pointwise);

// Are there so many weights and so few pixels that threads should share the weights instead of the pixels? The library's
// kernels cannot.
bool pays_to_share_weights(const ImageShape& shape, int threads);

// Is a transposed convolution faster as products whose overlapping results are added (make_transposed_convolution) than in the
// library's kernels, whose vectors hold only outputs? By the same kind of estimate. `slow`: the library only has slow kernels,
// or none. False if the products of a row would need too much memory.
bool pays_as_product(const ImageShape& shape, Isa isa, bool slow);

}  // namespace rewright::cpu
