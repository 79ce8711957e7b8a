// The plug-in that knows CUDA: loaded when it is asked for, so that one program runs with and
// without a GPU, its driver and its libraries.
#pragma once

#include <memory>

#include "runtime/cuda/driver/driver.h"

namespace rewright::cuda {

// The driver of a GPU. Throws Error(kMissing) that says which part is missing.
std::shared_ptr<Driver> load_driver(int number);

}  // namespace rewright::cuda
