// Chooses the kernel for a convolution by measured times.
#pragma once

#include "runtime/cpu/kernels/convolution/convolution_choice.h"
#include "runtime/cpu/kernels/convolution/folded_convolution.h"

namespace rewright::cpu {

// The fastest method according to planner.options().choices, which times those with unknown times, or by estimate if there are
// no measured choices. `convolution` has an image and a simple epilogue; it caches the library's answers.
ConvolutionMethod choose_method(const Planner& planner, FoldedConvolution& convolution);

}  // namespace rewright::cpu
