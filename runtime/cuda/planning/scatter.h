// Updates that are written, or combined, at places that data names.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/graph.h"
#include "runtime/cuda/source/generated_kernel.h"

namespace rewright::cuda {

// Each place gets a list of the updates that go there, in their order, so that results do not depend on which thread comes
// first: a place is then computed by as many threads as it has elements, each of which follows the list.
struct ScatterKernels {
  GeneratedKernel clear;    // lists
  GeneratedKernel link;     // indices, lists -> the same lists, in any order
  GeneratedKernel sort;     // lists -> the same lists, in the updates' order
  GeneratedKernel combine;  // x, lists, updates -> y
  std::int64_t lists;       // how many numbers of 32 bits they take
};

// Nothing for other nodes, for types that kernels do not compute with, and where there is nothing to do.
std::optional<ScatterKernels> scatter_kernels(const Node& node, const std::vector<KernelOperand>& operands);

}  // namespace rewright::cuda
