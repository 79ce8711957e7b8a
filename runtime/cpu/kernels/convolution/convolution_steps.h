// Adds the steps that compute convolutions to a plan.
#pragma once

#include <span>

#include "runtime/cpu/kernels/convolution/convolution_choice.h"
#include "runtime/cpu/kernels/convolution/folded_convolution.h"

namespace rewright::cpu {

// ---- Our own kernels, with channels last (own_steps.cc). Weights are constant and epilogues simple.
// A convolution by a method other than the library's.
void add_own_convolution(Planner& planner, const FoldedConvolution& convolution, ConvolutionMethod method, ValueId result);
// A convolution over three axes, directly; a depthwise one by channel.
void add_volume_convolution(Planner& planner, const FoldedConvolution& convolution, ValueId result);
// A transposed convolution, as products of matrices.
void add_transposed_convolution(Planner& planner, const FoldedConvolution& convolution, ValueId result);
// The sum of convolutions of the same image, all depthwise or all 1x1; the epilogue is the last one's.
void add_depthwise_convolutions(Planner& planner, std::span<const FoldedConvolution* const> convolutions, ValueId result);
void add_parallel_convolutions(Planner& planner, std::span<const FoldedConvolution* const> convolutions, ValueId result);
// A convolution with all tensors row-major.
void add_plain_convolution(Planner& planner, const FoldedConvolution& convolution, ValueId result);
// A depthwise convolution followed by a 1x1 convolution; the result between is not stored.
void add_separable_convolution(Planner& planner, const FoldedConvolution& depthwise, const FoldedConvolution& pointwise,
                               ValueId result);

// ---- oneDNN's kernels (library_steps.cc)
// Constant weights are packed once, others when the step runs. With several threads the convolution is divided into parts if
// that is faster. If it cannot be divided and `may_leave` says that another kernel computes it then, adds nothing and returns
// false.
bool add_library_convolution(Planner& planner, const FoldedConvolution& convolution, ValueId result, bool may_leave);

}  // namespace rewright::cpu
