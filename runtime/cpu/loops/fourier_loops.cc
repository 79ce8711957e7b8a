#include "runtime/cpu/loops/fourier_loops.h"

#include "runtime/cpu/loops/fourier_loops_isa.h"

namespace rewright::cpu {

const FourierLoops& fourier_loops(Isa isa) {
  if (isa == Isa::kAvx512) return fourier_loops_avx512();
  return isa == Isa::kAvx2 ? fourier_loops_avx2() : fourier_loops_baseline();
}

}  // namespace rewright::cpu
