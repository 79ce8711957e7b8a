// The expressions of several nodes as one.
#pragma once

#include <vector>

#include "runtime/planning/facts.h"

namespace rewright::planning {

// The result of the last of some nodes, over what they read from outside of them. With a `start` that value is an operand, the
// first one, although one of the nodes may compute it. With `shorten`, affine functions by channel are said with two constants.
Chain compose(Facts& facts, const std::vector<std::int32_t>& producers, const std::vector<int>& nodes, ValueId start,
              bool shorten);

// Does the expression hold a position that is data? Execution has to find whether it is outside of its axis.
bool has_position(const ElementNode& element);

}  // namespace rewright::planning
