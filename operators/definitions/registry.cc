#include <mutex>
#include <utility>

#include "operators/definitions/families.h"
#include "operators/own_operators.h"

namespace rewright::operators {

namespace {

struct OwnFamilies {
  std::mutex mutex;
  std::vector<std::function<void(Registry&)>> families;
  bool closed = false;
};

OwnFamilies& own_families() {
  static OwnFamilies own;
  return own;
}

}  // namespace

void add_own_operators(std::function<void(Registry&)> add) {
  OwnFamilies& own = own_families();
  const std::scoped_lock lock(own.mutex);
  if (own.closed) throw Error(ErrorCode::kUsage, "operators were added after the registry was used");
  own.families.push_back(std::move(add));
}

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
    OwnFamilies& own = own_families();
    const std::scoped_lock lock(own.mutex);
    own.closed = true;
    for (const auto& add : own.families) add(*r);
    return r;
  }();
  return *kAll;
}

}  // namespace rewright::operators
