// Pooling and normalizations, which cuDNN computes, and generated kernels with all that stands around them.
#pragma once

#include "runtime/cuda/planning/grouping.h"

namespace rewright::cuda {

// A group that is one expression with such a node in it gets two ways: as it is, or what stands before the node, the library's
// operation, and what stands behind it.
void split_at_libraries(GraphFacts& facts, std::vector<Group>& groups);

}  // namespace rewright::cuda
