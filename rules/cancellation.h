// Measures whether a rule loses digits where values nearly cancel. x (a - b) is accurate where a is close to b; x a - x b is
// not.
#pragma once

#include <cstdint>

#include "rules/rule.h"

namespace rewright::rules {

// The largest factor, over random instances, by which the target's rounding error exceeds the source's, on inputs that make one
// value of the source nearly zero by cancellation. A source's error counts as at least one rounding of its result. Factors of
// rules that keep digits are small numbers; those of rules that lose them grow without bound as the operands approach each
// other.
//
//   x (a - b) => x a - x b     thousands
//   (a + b) + c => a + (b + c) about 1
//
// Constants that the rule asks for (`const`) do not cancel against inputs: weights do not follow the data.
double cancellation(const Rule& rule, int instances, std::uint64_t seed);

// Factors above are no accident of single roundings.
inline constexpr double kCancels = 100;

}  // namespace rewright::rules
