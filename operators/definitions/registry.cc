#include "operators/definitions/determinant.h"
#include "operators/definitions/families.h"

namespace rewright::operators {

const Registry& registry() {
  static const std::unique_ptr<const Registry> kAll = [] {
    auto r = std::make_unique<Registry>();
    register_arithmetic(*r);
    register_activation(*r);
    register_convolution(*r);
    register_product(*r);
    register_determinant(*r);
    register_quantization(*r);
    register_quantized_product(*r);
    register_normalization(*r);
    register_softmax(*r);
    register_pooling(*r);
    register_reduction(*r);
    register_layout(*r);
    register_blocks(*r);
    register_assembly(*r);
    register_slice(*r);
    register_random_bits(*r);
    register_indexing(*r);
    register_scatter(*r);
    register_generation(*r);
    register_shape(*r);
    register_resize(*r);
    return r;
  }();
  return *kAll;
}

}  // namespace rewright::operators
