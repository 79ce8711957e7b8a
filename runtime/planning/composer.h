// Composes the expressions of several nodes into one.
#pragma once

#include <vector>

#include "runtime/planning/facts.h"

namespace rewright::planning {

// The last node's result as an expression over the values that the nodes read from outside. A `start` is the first operand even
// if one of the nodes computes it. With `shorten`, affine functions by channel are written with two constants.
Chain compose(Facts& facts, const std::vector<std::int32_t>& producers, const std::vector<int>& nodes, ValueId start,
              bool shorten);

// Does the expression read at positions given as data? Execution then has to check that they are inside their axes.
bool has_position(const ElementNode& element);

}  // namespace rewright::planning
