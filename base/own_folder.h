// The folder of the running code.
#pragma once

#include <filesystem>

namespace rewright {

// The folder of the program, or of the shared library, that contains this code; plug-ins are looked for there. Empty if the
// system does not tell.
std::filesystem::path own_folder();

}  // namespace rewright
