#include "runtime/cpu/rows/rows.h"

#include "runtime/cpu/rows/rows_isa.h"

namespace rewright::cpu {

const RowLoops& row_loops(Isa isa) {
  if (isa == Isa::kAvx512) return rows_avx512();
  return isa == Isa::kAvx2 ? rows_avx2() : rows_baseline();
}

}  // namespace rewright::cpu
