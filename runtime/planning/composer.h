// Composes the expressions of several nodes into one.
#pragma once

#include <vector>

#include "runtime/planning/facts.h"

namespace rewright::planning {

// The last node's result as an expression over the values that the nodes read from outside. A `start` is the first operand even
// if one of the nodes computes it. With `shorten`, affine functions by channel are written with two constants. The facts and
// the producers must outlive the chain until its expression is requested.
Chain compose(Facts& facts, const std::vector<std::int32_t>& producers, std::vector<int> nodes, ValueId start, bool shorten);

}  // namespace rewright::planning
