// Pools and normalizations: computed by cuDNN, or by generated kernels together with surrounding nodes.
#pragma once

#include "runtime/cuda/planning/grouping.h"

namespace rewright::cuda {

// A group that is one expression and contains such a node gets two alternatives: the whole expression, or the nodes before it,
// the library's operation, and the nodes after it.
void split_at_libraries(GraphFacts& facts, std::vector<Group>& groups);

}  // namespace rewright::cuda
