// Operators with one mistake in their denotation, as a wrong line in a definition would make it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operators/operator.h"

namespace rewright::testing {

enum class Slip {
  kConstant,   // a number is 1 more
  kIndex,      // an index used as a number is 1 more
  kShift,      // an input is read one further along an axis
  kAxes,       // two neighbouring axes of a position are exchanged
  kPadding,    // an access outside of the bounds is not 0
  kReduction,  // a sum instead of a maximum or a product, a maximum instead of a sum or a minimum
  kBound,      // a reduction ends one too early
  kGuard,      // a condition is missing
  kBranches,   // the branches of a choice are swapped
  kExtremum,   // a maximum instead of a minimum and vice versa
  kSum,        // a product instead of a sum
  kProduct,    // a sum instead of a product
  kQuotient,   // a product instead of a quotient
  kFunction,   // another function
  kIdentity,   // a function is missing
};
inline constexpr int kSlips = static_cast<int>(Slip::kIdentity) + 1;
std::string_view name(Slip slip);

// The number of places for each kind of mistake in a definition.
std::map<Slip, int> places(const Definition& definition);

// The operator with the mistake at its n-th place (from 0, over all outputs) in every definition with that many places.
Operator with_slip(const Operator& op, Slip slip, int place);

}  // namespace rewright::testing
