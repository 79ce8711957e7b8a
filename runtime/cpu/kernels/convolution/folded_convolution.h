// A convolution with the operators around it that its kernel computes too.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "runtime/cpu/kernels/convolution/library_convolution.h"
#include "runtime/cpu/kernels/convolution/own_convolution.h"
#include "runtime/cpu/kernels/epilogue.h"

namespace rewright::cpu {

// y = epilogue(convolution(max(floor, input), weights) + bias)
struct FoldedConvolution {
  const Node& node;
  ConvolutionShape shape;
  bool constant_weights = false;  // and a constant bias, if there is one
  ValueId input = kNoValue;       // the node's first input, or what that is a function of
  float floor = -std::numeric_limits<float>::infinity();
  Epilogue epilogue{1};
  std::optional<ConvolutionPrimitive> with_bias = {};  // the library's for all of this and a bias, once it was asked for

  // ---- What kernels of our own can compute
  // With constant weights, over one or two axes; nullopt otherwise.
  std::optional<ImageShape> image() const { return constant_weights ? shape.image() : std::nullopt; }
  bool is_by_channel() const;
  bool is_one_by_one() const;

  // ---- Constants, with the scales and shifts by channel that the epilogue has absorbed
  bool has_shift() const;  // not all zeros
  Tensor scaled_weights(const Planner& planner) const;
  Tensor shifted_bias(const Planner& planner) const;
  std::vector<float> bias(const Planner& planner) const;
  // For a kernel of our own, which asks for the weights while it is made.
  Weights weights(Planner& planner) const;
  // Names the scaled weights and their packed forms, for plans of other sizes to find.
  ConstantOrigin origin(const Planner& planner) const;
  // For a kernel of our own; the epilogue must be simple.
  Finish finish(const Planner& planner) const;

  // The epilogue to choose the library's layouts by; null where it adds tensors, whose layouts follow from the choice.
  const Epilogue* without_additions() const { return epilogue.additions().empty() ? &epilogue : nullptr; }
};

// nullopt if types, sizes or attributes are not those of a convolution that a kernel computes. See plan_convolution for the
// rest.
std::optional<FoldedConvolution> read_folded_convolution(const Planner& planner, const Node& node);

}  // namespace rewright::cpu
