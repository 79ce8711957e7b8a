// One instance of convolution_loops_impl.h for each instruction set.
#pragma once

#include "runtime/cpu/loops/convolution_loops.h"

namespace rewright::cpu {

const ConvolutionLoops& convolution_loops_baseline();
const ConvolutionLoops& convolution_loops_avx2();
const ConvolutionLoops& convolution_loops_avx512();

}  // namespace rewright::cpu
