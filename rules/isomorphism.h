// When two rules say the same.
#pragma once

#include "rules/rule.h"

namespace rewright::rules {

// Are the rules equal up to their names and descriptions, the names of their variables, the order of their inputs, quantities
// and conditions, and the order of the operands of commutative operators? Origin and proof do not count. What cannot be matched
// in a bounded number of steps counts as different.
bool same_rule(const Rule& a, const Rule& b);

}  // namespace rewright::rules
