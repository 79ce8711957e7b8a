// One instance of quantized_loops_impl.h for each instruction set.
#pragma once

#include "runtime/cpu/loops/quantized_loops.h"

namespace rewright::cpu {

const QuantizedLoops& quantized_loops_baseline();
const QuantizedLoops& quantized_loops_avx2();
const QuantizedLoops& quantized_loops_avx512();
const QuantizedLoops& quantized_loops_vnni();

}  // namespace rewright::cpu
