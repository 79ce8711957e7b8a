// The function that custom roundings are defined with.
#pragma once

#include "expressions/function.h"

namespace rewright::functions {

// The largest power of two that is at most |x|; 0 for 0, |x| if x is not finite.
extern const Function power_of_two;

}  // namespace rewright::functions
