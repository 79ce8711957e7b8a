// Integers in vectors of their own width. Registers hold integers of 64 bits; where no result needs more bits, and elements
// that are only moved, they become integers of 8, 16 or 32 bits.
#pragma once

#include "runtime/cpu/tile/box_plan.h"

namespace rewright::cpu {

// Marks registers of the plan's program as narrow, and sets the plan's width. Live registers are known, buffers are not yet
// assigned. `in_double`: real registers are of type double.
void narrow_integers(BoxPlan& plan, DataType output_type, const std::vector<DataType>& operand_types, bool in_double);

}  // namespace rewright::cpu
