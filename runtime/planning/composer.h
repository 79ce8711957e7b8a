// Composes the expressions of several nodes into one.
#pragma once

#include <vector>

#include "runtime/planning/facts.h"

namespace rewright::planning {

// The result of the last node as an expression of the values that the nodes read from outside. A `start` is the first operand
// even if one of the nodes computes it. With `shorten`, affine functions by channel are written with two constants.
Chain compose(Facts& facts, const std::vector<std::int32_t>& producers, const std::vector<int>& nodes, ValueId start,
              bool shorten);

// Does the expression read at a position that is data? Execution has to check whether it is outside of its axis.
bool has_position(const ElementNode& element);

}  // namespace rewright::planning
