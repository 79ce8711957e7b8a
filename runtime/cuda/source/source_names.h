// How generated source calls what the prelude of kernels has.
#pragma once

#include <cstdint>
#include <string>

#include "expressions/data_type.h"
#include "expressions/function.h"

namespace rewright::cuda {

// Empty if the prelude has no such function.
std::string function_name(const Function& function);

// What expressions are computed in, and a number of the integers.
const char* type_of(Scalar scalar);
std::string literal(std::int64_t value);

// Of the elements of a tensor. Throws Error(kUnsupported) for types whose elements have no fixed size.
std::string type_name(DataType type);

}  // namespace rewright::cuda
