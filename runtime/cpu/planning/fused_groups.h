// Groups of expressions that one step computes together, band by band (runtime/cpu/tile/stages.h): a softmax or normalization
// that is written out.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/cpu/planning/planner.h"
#include "runtime/planning/grouping.h"

namespace rewright::cpu {

struct FusedGroups {
  std::vector<std::size_t> groups;  // ascending; at least two
  std::vector<bool> is_result;      // of each: does anything else read what it computes?
};

// Sets of groups that may be computed where the last of them is: each reads results of others, and what the others compute is
// asked for only later. Each set is a proposal: whether it is worthwhile depends on the loops.
std::vector<FusedGroups> find_fused_groups(const Planner& planner, const std::vector<planning::Group>& groups);

}  // namespace rewright::cpu
