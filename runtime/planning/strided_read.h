// Reads at fixed strides: transposes, slices, broadcasts.
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

}  // namespace rewright::planning
