// Which kernel computes a convolution.
#pragma once

#include "runtime/cpu/convolution/own_convolution.h"

namespace rewright::cpu {

enum class ConvolutionMethod { kLibrary, kDirect, kGrouped, kWinograd2, kWinograd4 };

// The fastest by an estimate: the multiplications at the rate that the kernels reach, and what Winograd's method adds, which
// is its transformations and larger weights that come from beyond the second-level cache. The estimate depends on nothing but
// its arguments, and so do the results' roundings. Without `winograd` it is none of its methods.
ConvolutionMethod fastest_convolution(const PictureShape& shape, Isa isa, bool winograd = true);

// Is a 1x1 convolution so short that it is better one step with the convolution by channels before it? Longer ones are faster
// in the library's kernels.
bool pays_to_join(const PictureShape& pointwise);

// Are the weights so many and the pixels so few that threads had better share the weights than the pixels, which the library's
// kernels cannot?
bool pays_to_share_weights(const PictureShape& shape, int threads);

}  // namespace rewright::cpu
