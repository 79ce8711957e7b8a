// Instruction sets: the processor's, and tables of loops compiled for each.
#pragma once

#include <string_view>

#include "runtime/session.h"

namespace rewright::cpu {

Isa detected_isa();         // the best one that the processor has
Isa usable_isa(Isa limit);  // the best one that the processor has, up to the limit
std::string_view name(Isa isa);

// A table of loops that is compiled once for each instruction set (rewright_loops in CMakeLists.txt). The processor must have
// the instruction set.
//
//   loops_for<RowLoops>(isa).swish(d, a, n);
template <class Table>
const Table& loops_for(Isa isa) {
  if (isa == Isa::kAvx512) return Table::avx512();
  return isa == Isa::kAvx2 ? Table::avx2() : Table::baseline();
}

}  // namespace rewright::cpu
