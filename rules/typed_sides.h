// Instances of rules with one element type for all reals.
#pragma once

#include <optional>

#include "rules/instance.h"

namespace rewright::rules {

// With float for every real type a graph rounds to float after each operator, with double after none that matters.
struct TypedSides {
  Graph source, target;
};

// Nothing if an input is not real.
std::optional<TypedSides> as_type(const Rule& rule, const RuleInstance& instance, DataType type);

}  // namespace rewright::rules
