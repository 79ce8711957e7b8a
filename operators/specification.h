// Specifications of operators without a denotation whose results can be said by elements.
//
// A denotation is evaluated: kernels, fusions, costs and gradients are read off it. That of a scatter compares each element
// with every index, which no one should compute by. So scatters are executed by code of their own, and this says what that code
// computes, for proofs alone. A test compares the two.
#pragma once

#include "operators/operator.h"

namespace rewright::operators {

// The operator with its specification as the denotation; the operator itself if it has none but its own.
const Operator& specified(const Operator& op);

}  // namespace rewright::operators
