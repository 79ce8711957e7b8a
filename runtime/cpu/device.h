// The CPU as something to optimize for.
#pragma once

#include <memory>
#include <string>

#include "optimizer/device.h"

namespace rewright {

// `threads` of 0: as many as the machine has processors. `winograd`: see SessionOptions.
std::unique_ptr<Device> make_cpu_device(int threads = 1, bool winograd = true);

// The libraries that kernels come from, with their versions: a line each.
std::string cpu_library_versions();

// A number that changes with the kernels and with how graphs are planned.
int cpu_kernel_generation();

}  // namespace rewright
