// Cases of kernels for single operators.
#pragma once

#include "tests/kernel_sweep/case_builder.h"

namespace rewright::testing {

// Bounded linear functions with numbers by channel, and two slopes.
ValueId linear_function(CaseBuilder& b);
// Products of 8-bit integers of which weights, zero points and scales may be inputs.
ValueId integer_product(CaseBuilder& b);
// Columns added back at the places of their windows (Col2Im).
ValueId placed_columns(CaseBuilder& b);
// Tile and Expand, of all types.
ValueId repeated_elements(CaseBuilder& b);
// Elements combined at other places, by rows or one by one.
ValueId scattered(CaseBuilder& b);
// The largest or smallest elements and their positions, of all types, many of them equal.
ValueId best_elements(CaseBuilder& b);
// Running sums along any axis.
ValueId running_totals(CaseBuilder& b);
// Normalizations over several axes, with their statistics; norms.
ValueId with_statistics(CaseBuilder& b);
// A softmax or normalization along an axis in small operators, which are computed together in bands where they are large.
ValueId written_out(CaseBuilder& b);

}  // namespace rewright::testing
