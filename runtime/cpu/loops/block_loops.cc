#include "runtime/cpu/loops/block_loops.h"

namespace rewright::cpu {

const BlockLoops& BlockLoops::best(Isa isa) {
  if (isa == Isa::kAvx512 && __builtin_cpu_supports("avx512vnni")) return vnni();
  return loops_for<BlockLoops>(isa);
}

}  // namespace rewright::cpu
