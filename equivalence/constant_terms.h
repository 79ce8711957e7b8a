// Terms that a constant of the second model may be a rounding of, by looking at its elements: constants of the first model,
// transposed, reshaped, or joined; and numbers that operators' definitions contain.
#pragma once

#include <vector>

#include "equivalence/checker/proof.h"

namespace rewright::equivalence {

// Steps that explain constants of the second model by elements of constants of the first one.
std::vector<Step> moved_constants(const Joint& joint, double tolerance);

// Steps that explain constants of the statement that are one number by numbers in the definitions of its operators: a float
// 1.4142135 is the square root of 2 that a Gelu means.
std::vector<Step> known_numbers(const Joint& joint, const Statement& statement, double tolerance);

}  // namespace rewright::equivalence
