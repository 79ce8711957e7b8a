// Which known identities follow from the equations that were found?
#pragma once

#include <optional>

#include "generator/enumeration/expressions.h"
#include "generator/pruning/derivation.h"
#include "rules/rule.h"

namespace rewright::generator {

// A rule with the sizes of a configuration's tensors for its inputs, as an equation of that configuration; nullopt if the
// configuration lacks its operators, attributes or constants.
std::optional<Equation> equation_of(const Rule& rule, Forms& forms);

}  // namespace rewright::generator
