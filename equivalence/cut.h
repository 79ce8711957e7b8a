// The equation to prove for two candidate values: both graphs, cut off at values that are known to be equal.
#pragma once

#include <optional>
#include <vector>

#include "equivalence/checker/equation.h"

namespace rewright::equivalence {

// Leaves of the second model's value are values that are already equal to one of the first; the first model's value is followed
// back to them. With a `depth`, leaves are replaced so often by what computes them, for equations that need to see behind a
// leaf. With kConstantsAsLeaves, what the first model computes from constants alone is a leaf as well. nullopt if nothing new
// comes of it.
inline constexpr int kConstantsAsLeaves = -1;
std::optional<Equation> cut(const Joint& joint, ValueId a, ValueId b, int depth);

// Adds what a term reads that is in neither model: what it computes from constants, each as a whole, and values that are known.
void add_leaves_of_term(const Joint& joint, ValueId term, std::vector<ValueId>& leaves);

}  // namespace rewright::equivalence
