// Products of integers with scales and zero points, as graphs: for quantized operators of ONNX Runtime's, alone and in
// recurrences.
#pragma once

#include "operators/gradient.h"

namespace rewright::operators {

// sum(k) (a - a_zero) (c - c_zero), as int32; kNoGradient is 0. A zero point with several elements is one for each column of c.
ValueId integer_product(GraphBuilder& b, ValueId a, ValueId c, ValueId a_zero, ValueId c_zero);

// The integer product times a_scale c_scale, in their type.
ValueId scaled_integer_product(GraphBuilder& b, ValueId a, ValueId c, ValueId a_scale, ValueId c_scale, ValueId a_zero,
                               ValueId c_zero);

// As above, with real numbers a, which become integers of 8 bits by their own range (DynamicQuantizeLinear).
ValueId dynamic_integer_product(GraphBuilder& b, ValueId a, ValueId c, ValueId c_scale, ValueId c_zero);

}  // namespace rewright::operators
