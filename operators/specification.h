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

// For an operator without a denotation whose results are a function of its attributes and of something that has one: the
// operator that gives that, as outputs. Two calls with equal attributes and equal views have equal results, whatever the
// function is, so rules in front of such an operator can be proved. Null for all others. A test replaces the inputs by others
// with an equal view.
const Operator* view_of(const Operator& op);

}  // namespace rewright::operators
