// Devices and backends by their names.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "optimizer/device.h"
#include "rules/rule.h"
#include "runtime/session.h"

namespace rewright::api {

// Of "cuda" (the first one) and "cuda:N"; nothing for other names.
std::optional<int> gpu_number(const std::string& name);

// A device by its name: cpu, cuda, cuda:N, onnxruntime or profile:FILE. Throws Error(kUsage) for unknown names, Error(kMissing)
// for what is not here. With exact arithmetic there are no kernels whose rounding is another than that of sums of products;
// with arithmetic that needs finite numbers, GPUs may round factors to TF32.
std::unique_ptr<Device> make_device(const std::string& name, int threads, MathClass math = MathClass::kReassociates,
                                    KernelChoice kernels = KernelChoice::kEstimated);
// What models are optimized for if nothing is said: cuda where there is a GPU, else cpu.
std::string default_device();
// A backend that can run models in this process: cpu, reference, cuda or cuda:N. It lives as long as the process.
const Backend& find_backend(const std::string& name, MathClass math = MathClass::kReassociates);

}  // namespace rewright::api
