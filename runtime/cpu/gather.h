// Rows found at positions that are data.
#pragma once

#include "runtime/cpu/kernel.h"

namespace rewright::cpu {

void register_gathers(KernelTable& table);

}  // namespace rewright::cpu
