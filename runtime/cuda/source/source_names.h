// The names of the prelude's types and functions in generated source.
#pragma once

#include <cstdint>
#include <string>

#include "expressions/data_type.h"
#include "expressions/function.h"

namespace rewright::cuda {

// Empty if the prelude has no such function.
std::string function_name(const Function& function);

// The type that expressions of a scalar are computed in, and a literal of integers.
const char* type_of(Scalar scalar);
std::string literal(std::int64_t value);

// The type of a tensor's elements. Throws Error(kUnsupported) for types whose elements have no fixed size.
std::string type_name(DataType type);

}  // namespace rewright::cuda
