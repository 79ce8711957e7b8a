// Several outputs of a node in one step. Defined in runtime/cpu/kernels, as everything that planning/kernels.h declares.
#pragma once

#include <span>

#include "runtime/cpu/planning/kernels.h"

namespace rewright::cpu {

// Adds one step that computes several outputs of a node, all over the same operands, and what they have in common only once.
// False, and no step, if there is nothing of that kind.
bool plan_together(Planner& planner, std::span<const Expression> outputs);

// Adds one step for expressions that read each other's results, computed band by band. `is_result`: those that are stored for
// other steps. False, and no step, if that is not worthwhile.
bool plan_fused(Planner& planner, std::span<const Expression> expressions, const std::vector<bool>& is_result);

// Adds a step for a normalization of rows with its statistics. False, and no step, if the node is none, or has only one output.
bool plan_row_statistics(Planner& planner, const Node& node);
// Plans DynamicQuantizeLinear of floats as one step; false if it cannot.
bool plan_dynamic_quantization(Planner& planner, const Node& node);

}  // namespace rewright::cpu
