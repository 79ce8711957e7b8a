// Decides whether two rules are the same.
#pragma once

#include "rules/rule.h"

namespace rewright::rules {

// Are the rules equal up to their names, descriptions, names of variables, order of inputs, quantities and conditions, and
// order of operands of commutative operators? Origin and proof are ignored. If matching exceeds a bounded number of steps, they
// count as different.
bool same_rule(const Rule& a, const Rule& b);

}  // namespace rewright::rules
