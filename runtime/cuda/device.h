// A GPU as something to run on and to optimize for.
#pragma once

#include <memory>

#include "optimizer/device.h"
#include "runtime/session.h"

namespace rewright {

// GPUs are counted from 0. Both throw Error(kMissing) that says which part is missing: the plug-in, a library, the driver, the
// GPU.
std::unique_ptr<Backend> make_cuda_backend(int number = 0);
std::unique_ptr<Device> make_cuda_device(int number = 0);

}  // namespace rewright
