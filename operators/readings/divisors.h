// Where results of operators that are integers are not defined.
#pragma once

#include <cstddef>
#include <set>
#include <span>

#include "operators/operator.h"

namespace rewright::operators {

// The operands whose elements stand in a divisor of integers, of a quotient or a remainder: the results are not defined where
// such an element is 0.
std::set<std::size_t> integer_divisors(const Definition& definition);

// Does an operator with outputs of these types make integers of a real that is no number, or, as a Cast, of one that is beyond
// their type? They may be anything.
bool makes_undefined_integers(const Operator& op, std::span<const DataType> outputs, std::span<const Tensor> operands);

}  // namespace rewright::operators
