// The number of operations of an output.
#pragma once

#include "operators/operator.h"

namespace rewright::operators {

// The arithmetic operations for all elements of an output with a denotation. An operation counts once for each combination of
// values of the variables that it depends on: the mean of a row counts once for the row. Unknown sizes count as 1; conditions
// count as true.
double operation_count(const Output& output);

}  // namespace rewright::operators
