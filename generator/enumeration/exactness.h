// Does a rule change what is rounded?
#pragma once

#include <cstdint>

#include "rules/rule.h"

namespace rewright::generator {

// Do both sides make each element by the same operations on the same elements in the same order, on this many sampled
// instances? Sums are taken in the order of the denotations. False where that cannot be told.
bool same_operations(const Rule& rule, int instances, std::uint64_t seed);

}  // namespace rewright::generator
