// Products of tensors of float8, which tensor cores multiply.
#pragma once

#include "runtime/cuda/planning/grouping.h"

namespace rewright::cuda {

// A product whose factors are tensors of float8e4m3fn or float8e5m2 times a number each gets two ways: of the tensors
// themselves, with their numbers as one factor, and as it is.
void multiply_in_float8(GraphFacts& facts, std::vector<Group>& groups);

}  // namespace rewright::cuda
