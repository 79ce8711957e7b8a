// Tests in floating point what a rule claims about rounding. Proofs are over the reals, where nothing overflows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "rules/rule.h"

namespace rewright::rules {

// Compares both sides on random instances, with numbers near overflow and zero, infinities and NaN:
//   kExact         every element is the same
//   kCancels       NaN in the inputs spreads to the same elements; where no value overflows, the same elements are finite
//   kReassociates  and no digits are lost where values nearly cancel (rules/cancellation.h)
//   kNeedsFinite   nothing is claimed
// Zeros around images are multiplied on both sides. Where a runtime leaves them out, the result holds for finite weights.
// Returns a difference that `claimed` does not allow; nullopt if none was found.
std::optional<std::string> test_rounding(const Rule& rule, MathClass claimed, int instances, std::uint64_t seed);

}  // namespace rewright::rules
