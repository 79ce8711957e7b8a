// The interpreter where infinities and NaN matter: zeros around an image are multiplied like its elements, by whatever
// operator. Runtimes differ in that, where weights are not finite.
#pragma once

#include <span>
#include <vector>

#include "expressions/tensor.h"
#include "operators/operator.h"

namespace rewright::operators {

// As interpret(), which leaves out products with such zeros in some operators and keeps them in others. Both are equal where
// all that is multiplied by such a zero is finite.
std::vector<Tensor> interpret_with_zeros_outside(const Operator& op, const Attributes& attributes,
                                                 std::span<const Tensor> inputs);

}  // namespace rewright::operators
