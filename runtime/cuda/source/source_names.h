// Names of the prelude's types and functions.
#pragma once

#include <cstdint>
#include <string>

#include "expressions/data_type.h"
#include "expressions/function.h"

namespace rewright::cuda {

// Empty if the prelude lacks the function.
std::string function_name(const Function& function);

// The type in which expressions of a scalar are computed, and an integer literal.
const char* type_of(Scalar scalar);
std::string literal(std::int64_t value);

// The type of a tensor's elements. Throws Error(kUnsupported) for elements without a fixed size.
std::string type_name(DataType type);

}  // namespace rewright::cuda
