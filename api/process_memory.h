// What memory this process has.
#pragma once

#include <cstddef>
#include <string>

namespace rewright::api {

// In bytes: what it has ("VmRSS:"), or the most it had ("VmHWM:"; getrusage would count that of the process that started it).
std::size_t memory_of_process(const std::string& which);

}  // namespace rewright::api
