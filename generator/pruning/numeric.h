// Equations that the field of fingerprints does not know, found with real numbers: laws of exponents, a softmax that is
// shifted.
#pragma once

#include <vector>

#include "generator/enumeration/enumeration.h"
#include "generator/enumeration/expressions.h"

namespace rewright::generator {

// Between classes below the last level whose elements are equal in double precision, up to rounding, for several random tensors
// of one assignment of sizes: the cheapest graph of all of them on the right. Nothing that overflows or is not a number.
std::vector<Equation> numeric_equations(const Enumeration& enumeration);

}  // namespace rewright::generator
