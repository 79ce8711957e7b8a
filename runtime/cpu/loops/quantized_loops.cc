#include "runtime/cpu/loops/quantized_loops.h"

namespace rewright::cpu {

const QuantizedLoops* quantized_loops(Isa isa, bool bytes) {
  if (!bytes) return &loops_for<QuantizedLoops>(isa);
  return isa == Isa::kAvx512 && __builtin_cpu_supports("avx512vnni") ? &QuantizedLoops::vnni() : nullptr;
}

}  // namespace rewright::cpu
