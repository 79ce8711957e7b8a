// Kernels compared with the reference while a model runs (SessionOptions::check_kernels): what a session says of it.
#pragma once

#include <cstddef>

#include "runtime/session.h"

namespace rewright::optimizer {
struct CheckedRun;
}

namespace rewright::runtime {

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

// Runs a session that checks kernels as a device's checked run (optimizer/devices/device.h).
CheckedRun checked_run(Session& session, std::span<const Tensor> inputs);

}  // namespace rewright::runtime
