// Pools and normalizations, which cuDNN computes, or generated kernels together with the nodes around them.
#pragma once

#include "runtime/cuda/planning/grouping.h"

namespace rewright::cuda {

// A group that is one expression and holds such a node gets two alternatives: the whole expression, or the nodes before that
// node, the library's operation, and the nodes behind it.
void split_at_libraries(GraphFacts& facts, std::vector<Group>& groups);

}  // namespace rewright::cuda
