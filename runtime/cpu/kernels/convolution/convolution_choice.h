// Which kernel computes a convolution.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/cpu/kernels/image_shape.h"
#include "runtime/session.h"

namespace rewright::cpu {

enum class ConvolutionMethod { kLibrary, kDirect, kGrouped, kWinograd2, kWinograd4, kFourier };

// The fastest by an estimate: the multiplications at the rate that the kernels reach, and what transforms add, Winograd's and
// Fourier's: they themselves, and larger weights that come from beyond the second-level cache. The estimate depends on nothing
// but its arguments, and so do the results' roundings. Without `transforms` it is none of these.
ConvolutionMethod fastest_convolution(const ImageShape& shape, Isa isa, bool transforms = true);

// The size of tiles for Fourier's method, by the same estimate; 0 if it cannot be used, or its weights would take too much
// memory.
std::int64_t fourier_size(const ImageShape& shape, Isa isa);

// Those that the same estimate does not find at least twice as long as the fastest, the library's always among them.
std::vector<ConvolutionMethod> close_convolutions(const ImageShape& shape, Isa isa, bool transforms = true);

// As the cost database knows it.
std::string_view name(ConvolutionMethod method);

// Is a 1x1 convolution so short that it is better one step with the convolution by channels before it? Longer ones are faster
// in the library's kernels.
bool pays_to_join(const ImageShape& pointwise);

// Are the weights so many and the pixels so few that threads had better share the weights than the pixels, which the library's
// kernels cannot?
bool pays_to_share_weights(const ImageShape& shape, int threads);

// Is a transposed convolution faster as products with what overlaps added up (make_transposed_convolution) than in the
// library's kernels, whose vectors hold outputs only? By the same kind of estimate. `slow`: the library has slow ones only, or
// none. False where the products of a row would take too much memory.
bool pays_as_product(const ImageShape& shape, Isa isa, bool slow);

}  // namespace rewright::cpu
