// Operands by which an operator divides integers.
#pragma once

#include <cstddef>
#include <set>

#include "operators/operator.h"

namespace rewright::operators {

// The operands whose elements stand in a divisor of integers, of a quotient or a remainder: the results are not defined where
// such an element is 0.
std::set<std::size_t> integer_divisors(const Definition& definition);

}  // namespace rewright::operators
