// Does a rule change rounding?
#pragma once

#include <cstdint>

#include "rules/rule.h"

namespace rewright::generator {

// Do both sides compute each element by the same operations on the same elements in the same order, on this many sampled
// instances? Sums have the denotations' order. False where this cannot be decided.
bool same_operations(const Rule& rule, int instances, std::uint64_t seed);

}  // namespace rewright::generator
