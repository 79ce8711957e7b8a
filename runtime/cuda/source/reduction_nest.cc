#include "runtime/cuda/source/reduction_nest.h"

#include <algorithm>

namespace rewright::cuda {

using Kind = ElementNode::Kind;

ReductionNest reduction_nest(const ElementNode& reduction) {
  ReductionNest nest;
  const ElementNode* level = &reduction;
  for (;;) {
    nest.variables.push_back(level->index);
    nest.bounds.push_back(level->bound);
    nest.conditions.insert(nest.conditions.end(), level->conditions.begin(), level->conditions.end());
    nest.body = level->arguments[0];
    if (nest.body->kind != Kind::kReduce || nest.body->reduction != reduction.reduction ||
        nest.body->scalar != reduction.scalar)
      break;
    level = nest.body.get();
  }
  if (all_constant(nest.bounds)) {
    nest.steps = 1;
    for (const Index& b : nest.bounds) nest.steps *= std::max<std::int64_t>(b.value(), 0);
  }
  return nest;
}

}  // namespace rewright::cuda
