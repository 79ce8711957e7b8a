// One instance of loops_impl.h for each instruction set.
#pragma once

#include "runtime/cpu/tile/loops.h"

namespace rewright::cpu {

struct LoopTables {
  RealLoops<float> f32;
  RealLoops<double> f64;
  IntegerLoops i64;
};

const LoopTables& loops_baseline();
const LoopTables& loops_avx2();
const LoopTables& loops_avx512();

}  // namespace rewright::cpu
