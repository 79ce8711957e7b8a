// One instance of fourier_loops_impl.h for each instruction set.
#pragma once

#include "runtime/cpu/loops/fourier_loops.h"

namespace rewright::cpu {

const FourierLoops& fourier_loops_baseline();
const FourierLoops& fourier_loops_avx2();
const FourierLoops& fourier_loops_avx512();

}  // namespace rewright::cpu
