// Equations that hold for reals but not in the field of fingerprints, found with floating-point numbers: laws of exponents, a
// shifted softmax.
#pragma once

#include <cstddef>
#include <vector>

#include "generator/enumeration/enumeration.h"
#include "generator/enumeration/expressions.h"

namespace rewright::generator {

// The most values that are compared: those of the smallest graphs.
inline constexpr std::size_t kMostNumericValues = 60000;

// Compares classes below the last level in double precision, for several random tensors of one assignment of sizes. Each class
// with equal elements (up to rounding) is equated to the cheapest graph among them, on the right. Values that overflow or are
// NaN are left out.
std::vector<Equation> numeric_equations(const Enumeration& enumeration);

}  // namespace rewright::generator
