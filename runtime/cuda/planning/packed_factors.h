// Products with weights that are stored in fewer bits than they are multiplied in.
#pragma once

#include <vector>

#include "runtime/cuda/planning/grouping.h"

namespace rewright::cuda {

// For products of few rows, whose time is that of reading the weights: lets one generated kernel compute the product from what
// the weights are computed from, such as integers of 4 bits and their scales, if that is less than half as large
// (Group::packed).
void read_packed_factors(GraphFacts& facts, std::vector<Group>& groups);

}  // namespace rewright::cuda
