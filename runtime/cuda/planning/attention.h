// Attention: a product, a softmax of its rows, and a second product. One kernel computes it without storing all scores.
#pragma once

#include "runtime/cuda/planning/grouping.h"

namespace rewright::cuda {

// Merges groups that are attention into one with alternatives: the library's kernel (half and bfloat16), a generated one (few
// queries), or the original groups. Nodes around them that only move elements are included, since both kernels read and write
// with any strides.
void join_attention(GraphFacts& facts, std::vector<Group>& groups);

}  // namespace rewright::cuda
