// The memory of a plan whose steps are known: lifetimes of storages, and their offsets in the arena.
#pragma once

#include "runtime/cpu/planning/plan.h"

namespace rewright::cpu {

// Sets Storage::first and last: the steps that use a storage or one of its parts. Outputs live to the end.
void find_lifetimes(Plan& plan);

// Places outputs in the memory of the inputs they replace (PlanOptions::replacements), if one step computes the output
// elementwise from the input and no later step reads that.
void reuse_inputs(Plan& plan);

// Extends the lifetimes of plan.values to the end, unless all storages together take more than 1 GiB.
void keep_values(Plan& plan);

// Sets Storage::offset and Plan::arena_bytes, from the lifetimes.
void assign_memory(Plan& plan);

}  // namespace rewright::cpu
