// Long reductions that give few numbers, such as the sum of a whole tensor.
#pragma once

#include "runtime/cuda/planning/grouping.h"

namespace rewright::cuda {

// Blocks of threads compute one row of a result each, so few rows leave most of a GPU idle. A group with one long reduction for
// few rows gets two alternatives: first the reduction of parts, by a kernel of its own, and then the rest of the group with the
// reduction of the parts' results; or the group as it is. Parts and their order are fixed: each run gives the same bits.
void split_reductions(GraphFacts& facts, std::vector<Group>& groups);

}  // namespace rewright::cuda
