#include "runtime/cpu/tile/loops.h"

#include "runtime/cpu/tile/loops_isa.h"

namespace rewright::cpu {

template <>
const RealLoops<float>& real_loops<float>(Isa isa) {
  if (isa == Isa::kAvx512) return loops_avx512().f32;
  return isa == Isa::kAvx2 ? loops_avx2().f32 : loops_baseline().f32;
}

template <>
const RealLoops<double>& real_loops<double>(Isa isa) {
  if (isa == Isa::kAvx512) return loops_avx512().f64;
  return isa == Isa::kAvx2 ? loops_avx2().f64 : loops_baseline().f64;
}

const IntegerLoops& integer_loops(Isa isa) {
  if (isa == Isa::kAvx512) return loops_avx512().i64;
  return isa == Isa::kAvx2 ? loops_avx2().i64 : loops_baseline().i64;
}

}  // namespace rewright::cpu
