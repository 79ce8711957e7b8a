// Generated source to machine code by NVRTC, which needs neither GPU nor driver.
#pragma once

#include <string>

namespace rewright::cuda {

// For an architecture like 90. Throws Error(kUnsupported) with the compiler's log.
std::string compile_for(const std::string& source, int architecture);
std::string compiler_version();  // "NVRTC 13.0"

}  // namespace rewright::cuda
