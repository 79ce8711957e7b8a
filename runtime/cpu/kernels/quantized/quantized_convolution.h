// Convolutions and products of 8-bit integers, with exact 32-bit sums, and their requantization.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cpu/kernels/convolution/own_convolution.h"

namespace rewright::cpu {

// Weights in place in a tensor of 8-bit integers.
struct QuantizedWeights {
  Tensor tensor;
  std::vector<int> zero_points;  // one, or one for each output
  // Strides between outputs (over all groups), inputs of a group, and pixels of the window.
  std::int64_t output_stride = 0, input_stride = 0, pixel_stride = 1;

  int at(std::int64_t output, std::int64_t input, std::int64_t pixel) const;  // minus the zero point
};

// y = round(clamp(factor[c] * sum + shift[c], low, high)) + zero_point. Vectors have an entry for each output.
struct Requantization {
  DataType type = DataType::kInt32;  // of y; kInt32: the sums themselves; floats are not rounded and have no zero point
  std::vector<std::int32_t> bias;    // added to the sums; may be empty
  std::vector<double> factor, shift;
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
  int zero_point = 0;
  bool exact = false;  // computes in double, without shift
  // A second rounding, applied to the first one's result v, which is clamped to inner_low and inner_high: y = round(clamp(carry
  // * v + constant[c] + factor * addend, low, high)) + zero_point.
  struct Second {
    float inner_low = 0, inner_high = 0, carry = 1;
    std::vector<double> constant;
    std::optional<DataType> addend;  // its element type
    float factor = 0;
  };
  std::optional<Second> second;
};

struct QuantizedTask {
  ImageShape shape;
  bool is_signed = false;         // the image's elements
  std::optional<int> zero_point;  // of the image; nullopt: the step's second input
  QuantizedWeights weights;
  Requantization finish;
};

// Do all sums fit into 32 bits?
bool fits_in_sums(const QuantizedTask& task);

// A step with the image, its zero point (if unknown) and the addend (if any) as inputs, channels last. Bytes made from
// constants come from `prepared`, as Weights::prepared.
std::unique_ptr<Kernel> make_quantized_convolution(
    QuantizedTask task,
    const std::function<Tensor(const std::string& how, std::size_t bytes, const std::function<void(std::byte*)>& fill)>&
        prepared,
    Isa isa);

}  // namespace rewright::cpu
