// Kernels of scatters: updates that are written to, or combined with, the elements at positions that are data.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/graph.h"
#include "runtime/cuda/source/generated_kernel.h"

namespace rewright::cuda {

// Each position gets a linked list of its updates in their order, so that results do not depend on the order of threads. Then
// one thread per element follows the list of the element's position.
struct ScatterKernels {
  GeneratedKernel clear;    // lists
  GeneratedKernel link;     // indices, lists -> the same lists, in any order
  GeneratedKernel sort;     // lists -> the same lists, in the updates' order
  GeneratedKernel combine;  // x, lists, updates -> y
  std::int64_t lists;       // the size of the lists, in integers of 32 bits
};

// nullopt for other nodes, for types that kernels do not compute with, and where there is nothing to do.
std::optional<ScatterKernels> scatter_kernels(const Node& node, const std::vector<KernelOperand>& operands);

}  // namespace rewright::cuda
