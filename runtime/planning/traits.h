// Properties of denotations that decide what nodes are grouped with.
#pragma once

#include "runtime/planning/facts.h"

namespace rewright::planning {

bool has_reduction(const Element& element);
// Does the expression read at positions given as data? Execution then has to check that they are inside their axes.
bool has_position(const ElementNode& element);

}  // namespace rewright::planning
