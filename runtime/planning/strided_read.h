// Reads at fixed strides: transposes, slices, broadcasts, repeated heads.
#pragma once

#include <optional>

#include "expressions/element.h"
#include "expressions/tensor.h"
#include "runtime/planning/affine.h"

namespace rewright::planning {

// The row-major address of a read, in elements of its operand, as constant + sum of strides * position: one coefficient for
// each axis of the result. nullopt if the address is not affine, or is outside of the operand somewhere. For a transpose of a
// tensor [2, 3] to [3, 2] the coefficients are {1, 3} and the constant is 0; a repeated axis has coefficient 0.
//
// `position`: the axes of the result, all variables; `sizes`: its sizes. Ignores `read.zero_outside`.
std::optional<Affine> read_strides(const ElementNode& read, const Indices& position, const Sizes& sizes,
                                   const Sizes& operand_sizes);

// Strides where one axis of the result has two: its position is o * inner + r, r < inner, and o moves by
// `outer_stride`, r by `inner_stride`. The coefficient of that axis is 0. Keys of 2 heads that are repeated for 3 queries each
// have an axis of 6 positions with inner = 3, and inner_stride = 0.
struct SplitStrides {
  Affine address;
  std::size_t axis = 0;
  std::int64_t inner = 1, outer_stride = 0, inner_stride = 0;
};
std::optional<SplitStrides> read_split_strides(const ElementNode& read, const Indices& position, const Sizes& sizes,
                                               const Sizes& operand_sizes);

}  // namespace rewright::planning
