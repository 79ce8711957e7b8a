// How many operations an output takes.
#pragma once

#include "operators/operator.h"

namespace rewright::operators {

// Arithmetic operations for all elements of an output with a denotation, each counted once for every value of the variables
// that it depends on: what is the same for a whole row, like its mean, is computed once a row. Unknown sizes count as 1, guards
// as holding always.
double operation_count(const Output& output);

}  // namespace rewright::operators
