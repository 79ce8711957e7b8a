// One instance of product_loops_impl.h for each instruction set.
#pragma once

#include "runtime/cpu/loops/product_loops.h"

namespace rewright::cpu {

const ProductLoops& product_loops_baseline();
const ProductLoops& product_loops_avx2();
const ProductLoops& product_loops_avx512();

}  // namespace rewright::cpu
