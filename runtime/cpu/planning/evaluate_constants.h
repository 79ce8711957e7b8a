// Computes what a graph's nodes give for constants, with the CPU's kernels.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "runtime/cpu/planning/plan.h"

namespace rewright::cpu {

// The tensors of the values that depend on constants alone and that an output or another node needs; by number, empty elsewhere
// and for those that `left_out` marks (by number; may be empty). Plans and runs the part of the graph that computes them, which
// is why it is defined in runtime/cpu/backend.
std::vector<Tensor> evaluate_constants(const Graph& graph, const PlanOptions& options, const std::vector<bool>& left_out = {});

}  // namespace rewright::cpu
