// Pools of integers of 8 bits.
#pragma once

#include "runtime/cpu/kernels/pool_shape.h"

namespace rewright::cpu {

// Maxima and averages of a dequantized tensor, computed of its integers, and maxima of integers themselves. A quantization
// behind is a part of it. Null where the operand is neither, or not in a way that a kernel has.
std::unique_ptr<NodePlan> plan_quantized_pool(Planner& planner, const Node& node, const PoolShape& shape);

}  // namespace rewright::cpu
