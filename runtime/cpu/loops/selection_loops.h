// Inner loops that find the few largest numbers of columns, one table for each instruction set.
#pragma once

#include <cstdint>

#include "runtime/cpu/base/isa.h"

namespace rewright::cpu {

struct SelectionLoops {
  // The table for each instruction set; loops_for<SelectionLoops>(isa) chooses.
  static const SelectionLoops &baseline(), &avx2(), &avx512();

  using Count = std::int64_t;
  static constexpr Count kColumns = 16, kMost = 8;
  // where[t * kColumns + c]: the position of the t-th largest of x[c], x[stride + c], ..., x[(steps - 1) * stride + c], for
  // each c < kColumns and t < count, 1 <= count <= min(steps, kMost). Of equal ones the first comes first; `smallest` ones are
  // counted likewise. `reals`: x are the bits of reals, of which -0 is 0 and NaN the largest. Positions have less than 31 bits.
  template <class T>
  using Select = void (*)(std::int32_t* where, const T* x, Count stride, Count steps, Count count, bool reals, bool smallest);
  Select<std::int32_t> select_32;
  Select<std::int64_t> select_64;
};

}  // namespace rewright::cpu
