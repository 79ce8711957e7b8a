// Layouts and slots of groups' results, chosen before any group is planned.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "runtime/cpu/planning/planner.h"
#include "runtime/planning/grouping.h"

namespace rewright::cpu {

// Layouts of the results of groups that support both, such that steps and layout conversions take the least total time
// (layout_assignment.h). By value; empty if no group has a choice.
std::vector<std::optional<Layout>> choose_layouts(const Planner& planner, const std::vector<planning::Group>& groups);

// Values that are parts of a concatenation and have no other use, so that they can be computed in place. Requires
// planner.assigned_layout.
std::map<ValueId, PartOfChannels> find_parts(const Planner& planner, const std::vector<planning::Group>& groups);

}  // namespace rewright::cpu
