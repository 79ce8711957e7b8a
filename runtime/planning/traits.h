// What denotations do, as far as it decides what nodes are grouped with.
#pragma once

#include "runtime/planning/facts.h"

namespace rewright::planning {

bool has_reduction(const Element& element);
// Does the expression read at a position that is data?
bool has_position(const ElementNode& element);

}  // namespace rewright::planning
