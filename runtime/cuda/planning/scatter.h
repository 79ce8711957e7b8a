// Kernels for scatters: updates written to, or combined with, elements at positions given as data.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/graph.h"
#include "runtime/cuda/source/generated_kernel.h"

namespace rewright::cuda {

// Each position gets a linked list of its updates in their order, so that results do not depend on the order of threads. Then
// one thread for each element follows the list of its position.
struct ScatterKernels {
  GeneratedKernel clear;    // lists
  GeneratedKernel link;     // indices, lists -> the same lists, in any order
  GeneratedKernel sort;     // indices, lists -> linked lists in any order
  GeneratedKernel combine;  // lists -> sorted by update
  std::int64_t lists;       // number of 32-bit integers in `lists`
};

// nullopt for other nodes, for types that kernels do not support, and for empty tensors.
std::optional<ScatterKernels> scatter_kernels(const Node& node, const std::vector<KernelOperand>& operands);

}  // namespace rewright::cuda
