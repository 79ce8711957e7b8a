// Kernels compared with the reference while a model runs: what a session is asked for that does it, and what it says.
#pragma once

#include <cstddef>

#include "runtime/session.h"

namespace rewright {

// How much of what kernels compute is compared.
struct CheckExtent {
  std::size_t elements = 16;  // of each step's result ...
  double seconds = 1;         // ... of which fewer are compared where all of them would take longer
};

// What was compared, summed over the plans so far.
struct CheckedKernels {
  std::size_t steps = 0, checked = 0;  // of the plans; of these, those with an element that was compared
  std::size_t elements = 0;
};

// To be derived from by sessions that can do it.
class ChecksKernels {
 public:
  virtual ~ChecksKernels() = default;
  virtual CheckedKernels checked_kernels() const = 0;
};

inline CheckedKernels checked_kernels(const Session& session) {
  const auto* const checks = dynamic_cast<const ChecksKernels*>(&session);
  return checks == nullptr ? CheckedKernels() : checks->checked_kernels();
}

}  // namespace rewright
