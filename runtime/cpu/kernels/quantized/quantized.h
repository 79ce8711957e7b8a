// Kernels of integers of 8 bits: quantized operators, and others between what dequantizes and what quantizes.
#pragma once

#include <memory>

#include "runtime/cpu/planning/planner.h"

namespace rewright::cpu {

// Null where operands are not dequantized, or not in a way that a kernel has.
std::unique_ptr<NodePlan> plan_dequantized_convolution(Planner& planner, const Node& node);            // Conv
std::unique_ptr<NodePlan> plan_dequantized_product(Planner& planner, const Node& node, bool general);  // MatMul, Gemm

// The same graph with a node of its own for each use of a dequantized value, so that none has to be stored.
Graph with_dequantizations_by_use(const Graph& graph);

}  // namespace rewright::cpu
