// One instance of rows_impl.h for each instruction set.
#pragma once

#include "runtime/cpu/loops/rows.h"

namespace rewright::cpu {

const RowLoops& rows_baseline();
const RowLoops& rows_avx2();
const RowLoops& rows_avx512();

}  // namespace rewright::cpu
