// Running sessions on tensors that lie on the host and on GPUs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/device_tensor.h"

namespace rewright::api {

// The number of the GPU that "cuda" or "cuda:N" names; nothing for "cpu". Throws Error(kUsage) for other names.
std::optional<int> gpu_of_memory(const std::string& name);

// The memory of a GPU. Throws Error(kMissing) that says which part is missing.
const MemoryOfDevice& memory_of_gpu(int number);

// DeviceSession::run_placed for any session and any GPUs: tensors on another device than the session's go through the host.
std::vector<PlacedTensor> run_placed(Session& session, std::span<const PlacedTensor> inputs,
                                     std::span<const Destination> outputs, std::span<const std::string> output_names);

}  // namespace rewright::api
