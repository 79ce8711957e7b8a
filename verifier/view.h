// Rules of operators without a denotation, as rules of what these see of their inputs (view_of in operators/specification.h).
#pragma once

#include "rules/rule.h"

namespace rewright::proof {

// A rule from which the given one follows: where an output is made by the same operator with the same attributes on both sides,
// and that operator has a view, the outputs are those of the view. The rule itself if there is no such output.
Rule through_views(const Rule& rule);

}  // namespace rewright::proof
