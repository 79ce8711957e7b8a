// The windows of pools.
#pragma once

#include "runtime/cpu/onednn/onednn.h"
#include "runtime/cpu/planning/planner.h"

namespace rewright::cpu {

// Lists have an entry for each axis of a window; dilations are less one, as oneDNN has them.
struct PoolShape {
  Sizes x, y;
  dnnl::memory::dims kernel, strides, dilations, pads_begin, pads_end;
  dnnl::algorithm algorithm;

  // The positions of a window along an axis that lie in the input.
  struct Taps {
    std::int64_t first, count;
  };
  Taps taps(std::size_t axis, std::int64_t position) const;
};

// Nothing if the attributes are not served, or something is empty; or if where the maxima stand is asked for, without
// `indices`.
std::optional<PoolShape> read_pool(const Planner& planner, const Node& node, bool average, bool indices = false);
// Every channel's average, over the whole of an image.
std::optional<PoolShape> read_global_average(const Planner& planner, const Node& node);

// With three axes, the missing ones of size 1.
PoolShape of_three_axes(PoolShape shape);

}  // namespace rewright::cpu
