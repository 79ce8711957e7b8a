// The CPU as a device to optimize for.
#pragma once

#include <memory>
#include <string>

#include "optimizer/devices/device.h"
#include "runtime/cpu/planning/measured_choices.h"
#include "runtime/session.h"

namespace rewright::cpu {

// `threads` 0: one for each processor. The rest: see SessionOptions.
std::unique_ptr<Device> make_cpu_device(int threads = 1, bool transformed_convolutions = true,
                                        KernelChoice kernels = KernelChoice::kEstimated);

// The key of the cost database for these options: processor, instruction set, libraries, threads.
std::string cpu_identity(const SessionOptions& options);

// The measured choices for these options; null: none.
std::unique_ptr<cpu::MeasuredChoices> cpu_choices(const SessionOptions& options);

// The libraries that kernels come from, with their versions: a line each.
std::string cpu_library_versions();

// A number that changes with the kernels and with how graphs are planned.
int cpu_kernel_generation();

}  // namespace rewright::cpu
