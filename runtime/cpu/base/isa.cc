#include "runtime/cpu/base/isa.h"

#include <cpuid.h>

#include <algorithm>

namespace rewright::cpu {

namespace {

// Conversions of 16-bit floats, which not all compilers' __builtin_cpu_supports know.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

}  // namespace

Isa detected_isa() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl"))
    return Isa::kAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c()) return Isa::kAvx2;
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
