// Nested reductions of one kind.
#pragma once

#include <vector>

#include "expressions/element.h"

namespace rewright::cuda {

// Directly nested reductions of one kind as one: all variables with their bounds, all conditions, and the innermost body.
struct ReductionNest {
  std::vector<Index> variables, bounds;
  std::vector<Condition> conditions;
  Element body;
  std::int64_t steps = -1;  // the number of positions, if all bounds are numbers
};
ReductionNest reduction_nest(const ElementNode& reduction);

}  // namespace rewright::cuda
