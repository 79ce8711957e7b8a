// Functions of denotations as the prelude of generated kernels has them.
#pragma once

#include <string>

#include "operators/function.h"

namespace rewright::cuda {

// How generated source calls it; empty if the prelude has no such function.
std::string function_name(const Function& function);

}  // namespace rewright::cuda
