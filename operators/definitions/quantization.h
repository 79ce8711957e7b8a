// Shared by quantized operators.
#pragma once

#include "operators/gradient.h"
#include "operators/operator.h"

namespace rewright::operators {

// a / b, rounded to float if `type` is float. Quantization then rounds it to an integer; without the first rounding a quotient
// near the middle of two integers would be rounded to the wrong one.
Element quotient(const Element& a, const Element& b, DataType type);

// e rounded to the nearest integer (ties to even) plus the zero point, clamped to the range of `type`. For float8 types it is e
// itself, which `saturate` clamps to their largest value.
Element quantized(const Element& e, const Element& zero_point, DataType type, bool saturate = true);
// quantized() with zero point 0.
Element quantized(const Element& e, DataType type, bool saturate = true);

// A scale or zero point at a row, column or channel: with rank 0 or one element it is the same for all; with rank 1 it has an
// element for each value of `entry`; else it is broadcast to `position`.
Element parameter(const Operand& p, const Index& entry, const Indices& position);
void require_parameter(Definition& d, const Operand& p, const Index& entries, const char* what);

// An integer element minus its zero point, which may be absent.
Element centered(const Element& x, const Operand& zero_point, const Index& entry, const Indices& position);

}  // namespace rewright::operators
