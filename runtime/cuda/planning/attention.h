// Attention: a product, a softmax of its rows, and a second product. One library kernel computes it without storing all scores.
#pragma once

#include "runtime/cuda/planning/grouping.h"

namespace rewright::cuda {

// Merges groups that are attention in half or bfloat16 into one with two alternatives: the library's kernel, or the original
// groups. Nodes around them that only move elements are included, since the library reads and writes with any strides.
void join_attention(GraphFacts& facts, std::vector<Group>& groups);

}  // namespace rewright::cuda
