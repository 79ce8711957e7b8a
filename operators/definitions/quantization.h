// What quantized operators share.
#pragma once

#include "operators/gradient.h"
#include "operators/operator.h"

namespace rewright::operators {

// a / b as an element of `type`: rounded to it, where that is float. What comes out is rounded to an integer, and a quotient
// between two of them would fall to the wrong one otherwise.
Element quotient(const Element& a, const Element& b, DataType type);

// e rounded to the nearest integer (ties to even), plus the zero point, as an element of `type`: beyond the type's range the
// nearest value in it. Float8 types take e itself, which `saturate` limits to their largest value.
Element quantized(const Element& e, const Element& zero_point, DataType type, bool saturate = true);
// The same without a zero point.
Element quantized(const Element& e, DataType type, bool saturate = true);

// A scale or zero point for each row, column or channel: of rank 0 or one element, it is the same for all; of rank 1, it has an
// entry for each of `entry`'s values; otherwise it broadcasts to `position`.
Element parameter(const Operand& p, const Index& entry, const Indices& position);
void require_parameter(Definition& d, const Operand& p, const Index& entries, const char* what);

// An integer element less its zero point, which may be absent.
Element centered(const Element& x, const Operand& zero_point, const Index& entry, const Indices& position);

}  // namespace rewright::operators
