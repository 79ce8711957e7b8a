// Nodes that change sizes and nothing else.
#pragma once

#include "expressions/element.h"
#include "expressions/tensor.h"

namespace rewright::planning {

// Does the expression hold the operand's elements in row-major order: is it a mere change of sizes?
bool keeps_order(const Element& element, const Indices& position, const Sizes& sizes, const Sizes& operand_sizes);

}  // namespace rewright::planning
