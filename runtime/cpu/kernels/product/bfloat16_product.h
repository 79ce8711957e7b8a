// Products of bfloat16 by the processor's own instructions, with sums in float.
#pragma once

#include <memory>

#include "runtime/cpu/planning/planner.h"

namespace rewright::cpu {

// Whether a node of a graph of bfloat16 is better such a product: a matrix by constant weights, on a processor that has the
// instructions. Its first operand has to be of bfloat16 then, also where the rest of the graph is computed in float.
bool is_bfloat16_product(const Graph& graph, const Node& node, Isa isa);

// Null where the first operand is not bfloat16 as a float, or the weights are other numbers than bfloat16 has.
std::unique_ptr<NodePlan> plan_bfloat16_product(Planner& planner, const Node& node, bool general);

}  // namespace rewright::cpu
