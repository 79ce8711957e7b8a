// Numbers written as strings and parsed from them, in the C locale whatever the program has set.
#pragma once

#include "expressions/tensor.h"

namespace rewright::operators {

// `format`: of a real number, for printf.
Tensor numerals_of(const Tensor& numbers, const char* format = "%.8g");
// The longest prefix of each string that is a number. Throws Error(kBadInput) if there is none, or it is out of range.
Tensor numbers_in(const Tensor& texts, DataType type);

}  // namespace rewright::operators
