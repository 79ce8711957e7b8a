// Devices by their names. The table of devices stands in devices.cc; messages and help texts that list them are made from it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "optimizer/devices/device.h"
#include "rules/rule.h"
#include "runtime/session.h"

namespace rewright::api {

// Uses of a device. Not every device serves every use.
enum class DeviceUse {
  kOptimize,  // models are optimized for it
  kMeasure,   // graphs are timed on it, on this machine
  kRun,       // it runs models, in this process or in a helper process
  kSession,   // it runs models in this process: sessions, training
  kMemory,    // tensors can lie in its memory
};

// The names of the devices for a use, for people: device_names(DeviceUse::kSession, "or") is "cpu, cuda or reference".
std::string device_names(DeviceUse use, std::string_view last_separator);
// The names as the syntax of an option: "cpu|cuda[:N]|reference".
std::string device_syntax(DeviceUse use);

// The number of a GPU: 0 for "cuda", N for "cuda:N"; nothing for other names.
std::optional<int> gpu_number(const std::string& name);

// A device of kOptimize, kMeasure or kRun by its name, except for "reference". Throws Error(kUsage) for unknown names,
// Error(kMissing) if this machine does not have it. kExact excludes kernels that round otherwise than sums of products; with
// kNeedsFinite, GPUs may round factors to TF32.
std::unique_ptr<Device> make_device(const std::string& name, int threads, MathClass math = MathClass::kReassociates,
                                    KernelChoice kernels = KernelChoice::kEstimated);
// The device that models are optimized for by default: "cuda" on a machine with a GPU, else "cpu".
std::string default_device();
// A backend of kSession by its name. It lives as long as the process. Throws as make_device.
const Backend& find_backend(const std::string& name, MathClass math = MathClass::kReassociates);

}  // namespace rewright::api
