// Which known identities do the equations that were found imply?
#pragma once

#include <optional>

#include "generator/enumeration/expressions.h"
#include "generator/pruning/derivation.h"
#include "rules/rule.h"

namespace rewright::generator {

// A rule whose inputs have the sizes of a configuration's tensors, as an equation of that configuration; nothing if it needs
// operators, attributes or constants that the configuration does not have.
std::optional<Equation> equation_of(const Rule& rule, Forms& forms);

}  // namespace rewright::generator
