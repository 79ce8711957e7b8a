// Divides a graph's nodes into groups that are planned together.
#pragma once

#include <vector>

#include "runtime/cpu/planning/planner.h"
#include "runtime/planning/grouping.h"

namespace rewright::cpu {

// Returns the groups in execution order. Marks in `stored` (by value) the values for which planner.is_stored is true.
std::vector<planning::Group> make_groups(Planner& planner, std::vector<bool>& stored);

// How to compute a node whose kernel failed its check (PlanOptions::instead); nullopt: with its kernel.
std::optional<Instead> instead_of(const Planner& planner, int node);

}  // namespace rewright::cpu
