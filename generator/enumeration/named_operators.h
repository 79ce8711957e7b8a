// Operators that lists know by names of their own, such as TASO's conv2d and ew_add. They constrain attributes and operands to
// those that generators try: equal strides, kernels of given sizes, matrices of two dimensions. All other operators are known
// by their own names and fields (configuration.cc).
#pragma once

#include <string_view>
#include <vector>

#include "generator/enumeration/configuration.h"
#include "generator/enumeration/operator_arguments.h"

namespace rewright::generator {

// Adds the choices of one listed operator, and notes the leaves that they need.
using AddOperator = void (*)(OperatorArguments& arguments, std::vector<Choice>& choices, Leaves& leaves);

// Null if no operator has this name.
AddOperator find_named_operator(std::string_view name);

}  // namespace rewright::generator
