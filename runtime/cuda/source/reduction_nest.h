// Nested reductions of one kind.
#pragma once

#include <vector>

#include "expressions/element.h"

namespace rewright::cuda {

// Directly nested reductions of one kind, merged: all variables with their bounds, all conditions, and the innermost body.
struct ReductionNest {
  std::vector<Index> variables, bounds;
  std::vector<Condition> conditions;
  Element body;
  std::int64_t steps = -1;  // number of positions if all bounds are numbers, else -1
};
ReductionNest reduction_nest(const ElementNode& reduction);

}  // namespace rewright::cuda
