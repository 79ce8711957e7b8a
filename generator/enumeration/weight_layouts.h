// Rearrangements that write elements more than once, or zeros between them. Of weights they cost nothing.
#pragma once

#include <vector>

#include "generator/enumeration/configuration.h"
#include "generator/enumeration/operator_arguments.h"

namespace rewright::generator {

// repeat(axis=0,times=2|4): all of a tensor several times along an axis.
void add_repeats(OperatorArguments& arguments, std::vector<Choice>& choices, Leaves& leaves);

// diagonal(from=0,to=1,blocks=1|G): axis `from` is cut into blocks of two halves each. The second halves move along axis `to`,
// to where the first ones end, and leave zeros: a matrix of two rows becomes one with these rows on its diagonal.
void add_diagonals(OperatorArguments& arguments, std::vector<Choice>& choices, Leaves& leaves);

}  // namespace rewright::generator
