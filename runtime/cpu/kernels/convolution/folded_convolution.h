// A convolution with the surrounding operators that its kernel computes.
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
  bool constant_weights = false;  // and constant bias, if there is one
  ValueId input = kNoValue;       // the node's first input, or that input's operand
  float floor = -std::numeric_limits<float>::infinity();
  Epilogue epilogue{1};
  std::optional<ConvolutionPrimitive> with_bias = {};  // the library's kernel for all of this with a bias, cached

  // ---- For our own kernels
  // With constant weights; otherwise nullopt.
  std::optional<ImageShape> image() const { return constant_weights ? shape.image() : std::nullopt; }
  std::optional<VolumeShape> volume() const { return constant_weights ? shape.volume() : std::nullopt; }
  bool is_by_channel() const;
  bool is_one_by_one() const;

  // ---- Constants, with the scales and shifts by channel that the epilogue has absorbed
  bool has_shift() const;  // not all zeros
  Tensor scaled_weights(const Planner& planner) const;
  std::vector<double> exact_bias(const Planner& planner) const;  // rounded once, by who adds it
  Tensor shifted_bias(const Planner& planner) const;
  std::vector<float> bias(const Planner& planner) const;
  // For our own kernels, which request the weights while they are made.
  Weights weights(Planner& planner) const;
  // Identifies the scaled weights and their packed forms for plans of other sizes.
  ConstantOrigin origin(const Planner& planner) const;
  // For our own kernels; the epilogue must be simple.
  Finish finish(const Planner& planner) const;

  // The epilogue for choosing the library's layouts; null if it adds tensors, whose layouts follow from the choice.
  const Epilogue* without_additions() const { return epilogue.additions().empty() ? &epilogue : nullptr; }
};

// nullopt if no kernel computes a convolution with these types, sizes or attributes. Otherwise see plan_convolution.
std::optional<FoldedConvolution> read_folded_convolution(const Planner& planner, const Node& node);

}  // namespace rewright::cpu
