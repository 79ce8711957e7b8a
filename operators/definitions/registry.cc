#include "operators/definitions/families.h"

namespace rewright::operators {

const Registry& registry() {
  static const std::unique_ptr<const Registry> kAll = [] {
    auto r = std::make_unique<Registry>();
    register_activation(*r);
    register_affine_grid(*r);
    register_arithmetic(*r);
    register_assembly(*r);
    register_blocks(*r);
    register_convolution(*r);
    register_convolution_weight_gradient(*r);
    register_determinant(*r);
    register_generation(*r);
    register_indexing(*r);
    register_layout(*r);
    register_normalization(*r);
    register_pooling(*r);
    register_product(*r);
    register_quantization(*r);
    register_quantized_product(*r);
    register_random_bits(*r);
    register_reduction(*r);
    register_resize(*r);
    register_scatter(*r);
    register_shape(*r);
    register_slice(*r);
    register_softmax(*r);
    register_trees(*r);
    return r;
  }();
  return *kAll;
}

}  // namespace rewright::operators
