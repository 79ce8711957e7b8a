// Kernels for functions of whole rows: softmax and normalizations (runtime/planning/row_functions.h).
#pragma once

#include <memory>

#include "runtime/cpu/planning/node_plan.h"

namespace rewright::cpu {

// Is the node a softmax of each row of its operand, on floats?
bool is_row_softmax(const Planner& planner, const Node& node);

// Null if the node is not such a function of floats.
std::unique_ptr<NodePlan> plan_row_function(Planner& planner, const Node& node);

}  // namespace rewright::cpu
