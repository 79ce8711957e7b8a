// Convolutions among the named operators.
#pragma once

#include <vector>

#include "generator/enumeration/configuration.h"
#include "generator/enumeration/operator_arguments.h"

namespace rewright::generator {

// conv2d(kernel=3|1x3,stride=1|2,padding=same|valid|before|1,dilation=1|2,activation=none|relu,bias=false|true,outputs=same|own)
// variables=false: kernels are not variables of the target, they are computed.
void add_convolutions(OperatorArguments& arguments, std::vector<Choice>& choices, Leaves& leaves);

// transposed2d(kernel=2|4,stride=1|2,padding=valid|1,bias=false|true)
void add_transposed_convolutions(OperatorArguments& arguments, std::vector<Choice>& choices, Leaves& leaves);

// Have convolutions their own number of output channels? Leaves have to know before the first operator is added.
std::vector<bool> own_output_channels(OperatorArguments& conv2d);

}  // namespace rewright::generator
