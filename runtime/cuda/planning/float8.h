// Products of tensors of float8, which tensor cores multiply.
#pragma once

#include "runtime/cuda/planning/grouping.h"

namespace rewright::cuda {

// A product whose factors are tensors of float8e4m3fn or float8e5m2, each times a number, gets two alternatives: the product of
// the tensors themselves times both numbers, or the product as it was grouped.
void multiply_in_float8(GraphFacts& facts, std::vector<Group>& groups);

}  // namespace rewright::cuda
