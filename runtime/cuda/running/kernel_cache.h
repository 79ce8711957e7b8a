// Compiled kernels, kept on disk under the hash of their source, the device's architecture and the libraries' versions.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/cuda/driver/driver.h"

namespace rewright::cuda {

// An empty `folder`: nothing is kept. Kernels that cannot be written are compiled again next time.
std::string compiled(Driver& driver, const std::string& source, const std::filesystem::path& folder);

}  // namespace rewright::cuda
