// A generated kernel for attention of few queries, as in decoding: each block computes one of them, with its scores in shared
// memory.
#pragma once

#include <array>
#include <optional>

#include "runtime/cuda/driver/library_shapes.h"
#include "runtime/cuda/source/generated_kernel.h"

namespace rewright::cuda {

// The kernel's arguments are the addresses of q, k, v, the mask if there is one, and y. `offsets`: of the first elements of
// q, k and v. nullopt if there are too many queries for it (each reads all keys anew), too many keys for a block's memory, or
// a type that it does not compute.
std::optional<GeneratedKernel> attention_kernel(const AttentionShape& shape, const std::array<std::int64_t, 3>& offsets);

}  // namespace rewright::cuda
