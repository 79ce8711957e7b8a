#include "runtime/cpu/loops/quantized_loops.h"

#include "runtime/cpu/loops/quantized_loops_isa.h"

namespace rewright::cpu {

const QuantizedLoops* quantized_loops(Isa isa, bool bytes) {
  if (bytes) return isa == Isa::kAvx512 && __builtin_cpu_supports("avx512vnni") ? &quantized_loops_vnni() : nullptr;
  if (isa == Isa::kAvx512) return &quantized_loops_avx512();
  return isa == Isa::kAvx2 ? &quantized_loops_avx2() : &quantized_loops_baseline();
}

}  // namespace rewright::cpu
