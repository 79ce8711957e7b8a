// Finds plug-ins: parts that are loaded on demand because their libraries (MPI, CUDA, NCCL) are not installed everywhere.
#pragma once

#include <filesystem>
#include <string>

namespace rewright::distribution {

// The path of a plug-in's file. It is looked for beside the binary that holds this code, in rewright/ beside it, in rewright/
// of the installed tree's library folder, and beside the program. Empty if it is in none of these.
std::filesystem::path find_plugin(const std::string& file);

}  // namespace rewright::distribution
