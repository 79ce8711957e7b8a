// The memory of a plan whose steps are all known: how long storages are used, and their places in the arena.
#pragma once

#include "runtime/cpu/planning/plan.h"

namespace rewright::cpu {

// Sets Storage::first and last: the steps that use a storage or one of its parts. Outputs are used to the end.
void find_lifetimes(Plan& plan);

// Puts outputs into the memory of the inputs that they replace (PlanOptions::replacements), where one step computes the output
// element by element from the input and no later step reads that.
void reuse_inputs(Plan& plan);

// Extends the lifetimes of plan.values to the end, unless all storages together take more than 1 GiB.
void keep_values(Plan& plan);

// Sets Storage::offset and Plan::arena_bytes, from the lifetimes.
void assign_memory(Plan& plan);

}  // namespace rewright::cpu
