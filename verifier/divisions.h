// Quotients and remainders in the positions and guards of normal forms.
#pragma once

#include <optional>

#include "verifier/guard.h"
#include "verifier/solver.h"

namespace rewright::proof {

// Returns t if the dividend is t * divisor.
std::optional<Index> exact_multiple(const Index& dividend, const Index& divisor);

// If 0 <= v < d is assumed of a variable v, v + d t >= 0 is equivalent to t >= 0: blocks of size d are compared, whatever v is.
Guard without_offset(const Guard& g, const Guards& assumptions);

// Removes divisions whose dividend is known to be between 0 and the divisor, and flattens nested ones.
Index without_divisions(const Index& index, const Guards& assumptions, Solver& solver);

}  // namespace rewright::proof
