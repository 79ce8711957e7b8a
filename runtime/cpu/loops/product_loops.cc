#include "runtime/cpu/loops/product_loops.h"

#include "runtime/cpu/loops/product_loops_isa.h"

namespace rewright::cpu {

const ProductLoops& product_loops(Isa isa) {
  if (isa == Isa::kAvx512) return product_loops_avx512();
  return isa == Isa::kAvx2 ? product_loops_avx2() : product_loops_baseline();
}

}  // namespace rewright::cpu
