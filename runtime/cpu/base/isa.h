// Which instruction set to use.
#pragma once

#include <string_view>

#include "runtime/session.h"

namespace rewright::cpu {

Isa detected_isa();
Isa usable_isa(Isa limit);  // the best one that the processor has, within the limit
std::string_view name(Isa isa);

}  // namespace rewright::cpu
