// Adds the device's name to its failures.
#pragma once

#include "base/error.h"
#include "runtime/cuda/driver/driver.h"

namespace rewright::cuda {

template <class Work>
auto on(const Driver& driver, const Work& work) {
  try {
    return work();
  } catch (const Error& e) {
    throw e.code() == ErrorCode::kMissing ? e.within(driver.device_name()) : e;
  }
}

}  // namespace rewright::cuda
