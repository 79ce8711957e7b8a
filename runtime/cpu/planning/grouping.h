// Which nodes of a graph are planned together.
#pragma once

#include <vector>

#include "runtime/cpu/planning/planner.h"
#include "runtime/planning/grouping.h"

namespace rewright::cpu {

// The groups in the order in which they run. Marks in `stored` (by value) what planner.is_stored is to be true for.
std::vector<planning::Group> make_groups(Planner& planner, std::vector<bool>& stored);

// What a failed check says to compute a node with (PlanOptions::instead); nullopt: its kernel.
std::optional<Instead> instead_of(const Planner& planner, int node);

}  // namespace rewright::cpu
