#include "runtime/cpu/loops/rows.h"

#include "runtime/cpu/loops/rows_isa.h"

namespace rewright::cpu {

const RowLoops& row_loops(Isa isa) {
  if (isa == Isa::kAvx512) return rows_avx512();
  return isa == Isa::kAvx2 ? rows_avx2() : rows_baseline();
}

}  // namespace rewright::cpu
