// The families of operators. Each function adds the operators of one file, definitions/<name of the function>.cc, to the
// registry.
#pragma once

#include "operators/operator.h"

namespace rewright::operators {

void register_activation(Registry& r);
void register_affine_grid(Registry& r);
void register_arithmetic(Registry& r);
void register_assembly(Registry& r);
void register_blocks(Registry& r);
void register_convolution(Registry& r);
void register_convolution_weight_gradient(Registry& r);
void register_determinant(Registry& r);
void register_generation(Registry& r);
void register_indexing(Registry& r);
void register_layout(Registry& r);
void register_normalization(Registry& r);
void register_pooling(Registry& r);
void register_product(Registry& r);
void register_quantization(Registry& r);
void register_quantized_product(Registry& r);
void register_random_bits(Registry& r);
void register_reduction(Registry& r);
void register_resize(Registry& r);
void register_scatter(Registry& r);
void register_shape(Registry& r);
void register_slice(Registry& r);
void register_softmax(Registry& r);
void register_trees(Registry& r);

}  // namespace rewright::operators
