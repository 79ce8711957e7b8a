// Which kernel computes a convolution, by measured times.
#pragma once

#include "runtime/cpu/kernels/convolution/convolution_choice.h"
#include "runtime/cpu/kernels/convolution/folded_convolution.h"

namespace rewright::cpu {

// The fastest of the methods by planner.options().choices, which times those whose times are not known yet, or by estimate
// where there are no measured choices. `convolution` has an image and a simple epilogue, and keeps what the library was asked.
ConvolutionMethod choose_method(const Planner& planner, FoldedConvolution& convolution);

}  // namespace rewright::cpu
