// Layouts and slots of the results of a plan's groups, chosen before any of them is planned.
#pragma once

#include <map>
#include <vector>

#include "runtime/cpu/planning/planner.h"
#include "runtime/planning/grouping.h"

namespace rewright::cpu {

// The layouts of the results of groups that can compute in both, such that the steps and the changes of layout between them
// take the least time (layout_assignment.h).
std::map<ValueId, Layout> choose_layouts(const Planner& planner, const std::vector<planning::Group>& groups);

// The values that are parts of a concatenation and used by nothing else, so that they can be computed where the concatenation
// puts them. planner.assigned_layout must be known.
std::map<ValueId, PartOfChannels> find_parts(const Planner& planner, const std::vector<planning::Group>& groups);

}  // namespace rewright::cpu
