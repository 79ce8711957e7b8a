// Attention: a product, a softmax of its rows, and a product of that, which one kernel of a library can compute without all
// scores in memory.
#pragma once

#include "runtime/cuda/planning/grouping.h"

namespace rewright::cuda {

// Joins groups that are attention of half or bfloat16 into one with two alternatives: the library's kernel, or the groups as
// they were. Nodes that only move elements before and behind them are joined as well: the library reads and writes at any
// strides.
void join_attention(GraphFacts& facts, std::vector<Group>& groups);

}  // namespace rewright::cuda
