// The device for tests of whole sessions: the host's stand-in, or a GPU with REWRIGHT_TEST_DEVICE=cuda.
#pragma once

#include <cstdlib>
#include <string_view>

#include "runtime/cuda/running/plugin.h"
#include "runtime/cuda/testing/host_driver.h"

namespace rewright::cuda {

inline std::shared_ptr<Driver> tested_driver(bool libraries = true) {
  const char* const device = std::getenv("REWRIGHT_TEST_DEVICE");
  if (device == nullptr || std::string_view(device) != "cuda") return make_host_driver({.libraries = libraries});
  static const std::shared_ptr<Driver> gpu = load_driver(0);
  return gpu;
}

}  // namespace rewright::cuda
