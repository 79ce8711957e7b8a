// Can an expression be computed in the memory of an operand?
#pragma once

#include "expressions/element.h"

namespace rewright::planning {

// Is each element of the operand read only for the result's element at the same position?
bool is_read_in_place(const Element& element, const Indices& position, int operand);

}  // namespace rewright::planning
