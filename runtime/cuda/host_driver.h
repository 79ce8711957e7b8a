// The device of tests: generated kernels compiled as C++ and run on this processor, one thread of a block after the other, in
// turns where they exchange values.
#pragma once

#include <memory>

#include "runtime/cuda/driver.h"

namespace rewright::cuda {

// `libraries`: products and convolutions are computed by plain loops; otherwise there are none, and kernels compute them.
std::shared_ptr<Driver> make_host_driver(bool libraries);

}  // namespace rewright::cuda
