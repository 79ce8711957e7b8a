// The function that roundings of one's own are defined by.
#pragma once

#include "expressions/function.h"

namespace rewright::functions {

// The largest power of two that is not above |x|; 0 of 0, and what is not finite as |x|.
extern const Function power_of_two;

}  // namespace rewright::functions
