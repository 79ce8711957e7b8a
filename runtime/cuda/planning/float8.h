// Products of float8 tensors on tensor cores.
#pragma once

#include "runtime/cuda/planning/grouping.h"

namespace rewright::cuda {

// A product whose factors are tensors of float8e4m3fn or float8e5m2, each scaled by a number, gets two alternatives: the
// product of the float8 tensors, scaled by both numbers, or the original product.
void multiply_in_float8(GraphFacts& facts, std::vector<Group>& groups);

}  // namespace rewright::cuda
