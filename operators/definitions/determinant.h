// Determinants of square matrices.
#pragma once

#include "operators/gradient.h"

namespace rewright::operators {

void register_determinant(Registry& r);  // Det CofactorMatrix
void register_determinant_gradients(Gradients& g);

}  // namespace rewright::operators
