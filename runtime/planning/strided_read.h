// Reads at fixed strides, as transposes, slices and broadcasts are.
#pragma once

#include <optional>

#include "expressions/element.h"
#include "expressions/tensor.h"
#include "runtime/planning/affine.h"

namespace rewright::planning {

// The row-major address of a read, in elements of its operand, as constant + sum of strides * position: one coefficient per
// axis of the result. nullopt if the address is not affine, or leaves the operand somewhere. For a transpose of a tensor [2, 3]
// to [3, 2] the coefficients are {1, 3} and the constant is 0; a repeated axis has the coefficient 0.
//
// `position` are the axes of the result of these sizes, variables all. Does not look at `read.zero_outside`.
std::optional<Affine> read_strides(const ElementNode& read, const Indices& position, const Sizes& sizes,
                                   const Sizes& operand_sizes);

}  // namespace rewright::planning
