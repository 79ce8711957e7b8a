// A kernel: the code that executes one step of a plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/cpu/base/workers.h"

namespace rewright::cpu {

// Positions of a cache: in the memory of the past, in that of the present, and of the longest sequence. One plan serves all
// lengths where its kernels do.
struct CacheLengths {
  std::int64_t past = 0, present = 0, total = 0;
};

// The arguments of one execution of a step.
struct Call {
  std::span<const std::byte* const> inputs;
  std::span<std::byte* const> outputs;
  std::byte* scratch = nullptr;  // Kernel::scratch_bytes(), aligned to 64 bytes
  const Workers& workers;
  const CacheLengths* lengths = nullptr;  // null: the plan's
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  // Thread-safe; each thread passes its own memory.
  virtual void run(const Call& call) const = 0;
  // Kernels that compute in pieces need scratch memory for each of the plan's threads.
  virtual std::size_t scratch_bytes() const { return 0; }
  // The kernel's origin; for a library's kernel, with the library's version and name for it.
  virtual std::string source() const { return "a kernel of Rewright"; }
  // The loops of generated code (tile/loop_program.h); empty: it is not generated.
  virtual std::string loops() const { return {}; }
  // Does it serve calls with other lengths of caches than the plan's?
  virtual bool serves_any_lengths() const { return true; }
  // The rounding error as a multiple of a plain sum's. Above 1 for transforms, whose intermediate values exceed the results.
  virtual double rounding() const { return 1; }
};

}  // namespace rewright::cpu
