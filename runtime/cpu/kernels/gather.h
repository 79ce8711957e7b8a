// Rows found at positions that are data.
#pragma once

#include "runtime/cpu/planning/kernel.h"

namespace rewright::cpu {

void register_gathers(KernelTable& table);

}  // namespace rewright::cpu
