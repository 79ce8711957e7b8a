#include "runtime/cpu/base/isa.h"

#include <algorithm>

namespace rewright::cpu {

Isa detected_isa() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl"))
    return Isa::kAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")) return Isa::kAvx2;
  return Isa::kBaseline;
}

Isa usable_isa(Isa limit) { return std::min(limit, detected_isa()); }

std::string_view name(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kBaseline:
      break;
  }
  return "baseline";
}

}  // namespace rewright::cpu
