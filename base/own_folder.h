// Where the running code is.
#pragma once

#include <filesystem>

namespace rewright {

// The folder of the program, or of the shared library, that this code is part of: plug-ins stand beside it. Empty if the system
// does not say.
std::filesystem::path own_folder();

}  // namespace rewright
