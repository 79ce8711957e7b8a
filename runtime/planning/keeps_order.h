// Recognizes nodes that only change sizes, such as reshapes.
#pragma once

#include "expressions/element.h"
#include "expressions/tensor.h"

namespace rewright::planning {

// Does the expression return the operand's elements in the same row-major order? Tested at sample positions.
bool keeps_order(const Element& element, const Indices& position, const Sizes& sizes, const Sizes& operand_sizes);

}  // namespace rewright::planning
