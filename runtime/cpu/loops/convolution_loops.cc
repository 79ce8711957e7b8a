#include "runtime/cpu/loops/convolution_loops.h"

#include "runtime/cpu/loops/convolution_loops_isa.h"

namespace rewright::cpu {

const ConvolutionLoops& convolution_loops(Isa isa) {
  if (isa == Isa::kAvx512) return convolution_loops_avx512();
  return isa == Isa::kAvx2 ? convolution_loops_avx2() : convolution_loops_baseline();
}

}  // namespace rewright::cpu
