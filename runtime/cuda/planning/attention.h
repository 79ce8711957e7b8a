// Attention: a product, a softmax of its rows, and a product of that, which one kernel of a library's can compute without
// having all scores in memory.
#pragma once

#include "runtime/cuda/planning/grouping.h"

namespace rewright::cuda {

// Where groups are attention of half or bfloat16, they become one with two ways: as they are, or by the library. Nodes that
// only move elements before and behind it become part of it: the library reads and writes with any distances.
void join_attention(GraphFacts& facts, std::vector<Group>& groups);

}  // namespace rewright::cuda
