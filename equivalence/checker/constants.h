// Constants of the second model that are roundings of what the first one computes from its constants.
#pragma once

#include "graph/graph.h"

namespace rewright::equivalence {

// The default of what a float may differ, relatively: 8 units in the last place.
inline constexpr double kRoundingTolerance = 1e-6;

// The value, computed from constants alone, in double where its operators have a meaning there. Throws Error(kUnsupported) if
// it depends on anything else.
Tensor evaluate_constant(const Graph& graph, ValueId id);

// Adds the value, and what it is computed from, to another graph.
ValueId add_constant_part(Graph& part, const Graph& graph, ValueId id);

struct RoundingCheck {
  bool explained = false;
  double max_rel_error = 0;  // of an element; of those near 0 by cancellation, relative to the bound of their rounding error
};

// Are all elements of `found` roundings of the value's? Reals may differ by `tolerance` for float, and in proportion to the
// precision of other types; or, where terms cancel, by the bound of the error of a computation in that type
// (graph/element_sampler.h). All else must be equal.
RoundingCheck check_rounding(const Graph& graph, ValueId id, const Tensor& exact, const Tensor& found, double tolerance);

}  // namespace rewright::equivalence
