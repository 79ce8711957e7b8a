// Reductions as nests.
#pragma once

#include <vector>

#include "expressions/element.h"

namespace rewright::cuda {

// A nest of reductions of one kind as one: its variables with their bounds, what has to hold, and what is reduced.
struct ReductionNest {
  std::vector<Index> variables, bounds;
  std::vector<Condition> conditions;
  Element body;
  std::int64_t steps = -1;  // if all bounds are numbers
};
ReductionNest reduction_nest(const ElementNode& reduction);

}  // namespace rewright::cuda
