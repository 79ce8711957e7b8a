#include "runtime/cpu/planning/kernel.h"

#include "runtime/cpu/kernels/gather.h"

namespace rewright::cpu {

const KernelTable& kernel_table() {
  static const KernelTable table = [] {
    KernelTable t;
    register_concatenations(t);
    register_convolutions(t);
    register_pools(t);
    register_products(t);
    register_quantized(t);
    register_random_bits(t);
    register_scatters(t);
    register_gathers(t);
    register_weight_gradients(t);
    return t;
  }();
  return table;
}

}  // namespace rewright::cpu
