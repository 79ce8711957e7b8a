// GPUs as backends and as devices to optimize for.
#pragma once

#include <memory>
#include <string>

#include "optimizer/devices/device.h"
#include "runtime/session.h"

namespace rewright::cuda {

// GPUs are numbered from 0. Both throw Error(kMissing) with the missing part: the plug-in, a library, the driver, the GPU. With
// `tf32`, tensor cores may round the factors of float products and convolutions to 10 bits of fraction. The backend is also a
// MemoryOfDevice (runtime/device_tensor.h).
std::unique_ptr<Backend> make_cuda_backend(int number = 0, bool tf32 = false);
std::unique_ptr<Device> make_cuda_device(int number = 0, bool tf32 = false);

// Is there such a GPU? Loads no CUDA libraries if there is no driver.
bool has_cuda_device();
// The versions of the driver and of CUDA's libraries, on one line; empty if they are missing.
std::string cuda_versions();

}  // namespace rewright::cuda
