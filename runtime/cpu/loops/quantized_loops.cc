#include "runtime/cpu/loops/quantized_loops.h"

#include <algorithm>

#include "runtime/cpu/base/tile_registers.h"

namespace rewright::cpu {

const QuantizedLoops* quantized_loops(Isa isa, bool bytes) {
  if (!bytes) return &loops_for<QuantizedLoops>(isa);
  if (isa != Isa::kAvx512 || !__builtin_cpu_supports("avx512vnni")) return nullptr;
  return has_tile_registers() ? &QuantizedLoops::amx() : &QuantizedLoops::vnni();
}

TileSteps tile_steps(const QuantizedLoops& loops, std::int64_t words, std::int64_t times, std::int64_t pixels) {
  // Measured: reading a tile takes the same time, however short rows and steps are, and so does storing the sums.
  constexpr std::int64_t kLeastStep = 3, kLeastWords = 48;
  const std::int64_t steps = (words + loops.most_step - 1) / loops.most_step, step = (words + steps - 1) / steps;
  const std::int64_t all = times * words * std::min(pixels, loops.max_rows);
  if (loops.most_step > 1 && (step < kLeastStep || all < kLeastWords)) return {&QuantizedLoops::vnni(), 1, steps * step};
  return {&loops, step, steps * step};
}

}  // namespace rewright::cpu
