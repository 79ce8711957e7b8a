// Functions of whole rows, along the last axis: softmax and normalizations, found in denotations.
#pragma once

#include <memory>

#include "runtime/cpu/kernel.h"

namespace rewright::cpu {

// Is the node the softmax of each row of its operand? By its denotation, compared on some rows.
bool is_row_softmax(const Planner& planner, const Node& node);

// Null if the node is no function of this kind on floats.
std::unique_ptr<NodePlan> plan_row_function(Planner& planner, const Node& node);

}  // namespace rewright::cpu
