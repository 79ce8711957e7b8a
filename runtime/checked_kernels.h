// The extent of a session's comparison of kernels with the reference (SessionOptions::check_kernels).
#pragma once

#include <cstddef>

#include "runtime/session.h"

namespace rewright::optimizer {
struct CheckedRun;
}

namespace rewright::runtime {

// The work of the check, summed over the plans so far.
struct CheckedKernels {
  std::size_t steps = 0, checked = 0;  // of the plans; of these, those with an element that was compared
  std::size_t elements = 0;
};

// Base of sessions that check kernels.
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
