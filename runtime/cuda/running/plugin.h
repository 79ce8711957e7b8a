// The plug-in with the CUDA code, loaded on demand, so that one program runs with and without a GPU, its driver and its
// libraries.
#pragma once

#include <memory>

#include "runtime/cuda/driver/driver.h"

namespace rewright::cuda {

// The driver of a GPU. Throws Error(kMissing) with the missing part.
std::shared_ptr<Driver> load_driver(int number);

}  // namespace rewright::cuda
