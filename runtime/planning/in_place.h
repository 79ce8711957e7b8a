// Which operands an expression may be computed in the memory of.
#pragma once

#include "expressions/element.h"

namespace rewright::planning {

// Is each element of the operand read only for the element of the result that stands in its place?
bool is_read_in_place(const Element& element, const Indices& position, int operand);

}  // namespace rewright::planning
