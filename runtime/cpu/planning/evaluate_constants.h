// Evaluates values that depend on constants alone, with the CPU's kernels.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "runtime/cpu/planning/plan.h"

namespace rewright::cpu {

// The tensors of values that depend on constants alone and that an output or another node needs; indexed by value, empty
// elsewhere and for those that `left_out` marks (may be empty). Plans and runs that part of the graph, so it is defined in
// runtime/cpu/backend.
std::vector<Tensor> evaluate_constants(const Graph& graph, const PlanOptions& options, const std::vector<bool>& left_out = {});

}  // namespace rewright::cpu
