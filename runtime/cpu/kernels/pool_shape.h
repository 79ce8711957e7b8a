// The windows of pools.
#pragma once

#include "runtime/cpu/onednn/onednn.h"
#include "runtime/cpu/planning/planner.h"

namespace rewright::cpu {

// Lists have one entry for each axis of a window; dilations are reduced by 1, as in oneDNN.
struct PoolShape {
  Sizes x, y;
  dnnl::memory::dims kernel, strides, dilations, pads_begin, pads_end;
  dnnl::algorithm algorithm;
  std::int64_t power = 0;  // of a norm of the window's elements, 1 or 2; 0: none

  // The window's positions along an axis that are inside the input.
  struct Taps {
    std::int64_t first, count;
  };
  Taps taps(std::size_t axis, std::int64_t position) const;
};

// nullopt if the attributes are not supported, a tensor is empty, or the maxima's positions are requested without `indices`.
std::optional<PoolShape> read_pool(const Planner& planner, const Node& node, bool average, bool indices = false);
// The average of each channel over a whole image.
std::optional<PoolShape> read_global_average(const Planner& planner, const Node& node);

// Extended to three axes of size 1.
PoolShape of_three_axes(PoolShape shape);

}  // namespace rewright::cpu
