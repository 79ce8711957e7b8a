// Parts that are loaded only when they are asked for, because what they need is not everywhere: MPI, CUDA, NCCL.
#pragma once

#include <filesystem>
#include <string>

namespace rewright::distribution {

// The file of a plug-in: beside the program or library that this code is part of, where an installed tree has it (rewright/ in
// the folder of libraries), or beside the program. Empty if it is nowhere.
std::filesystem::path find_plugin(const std::string& file);

}  // namespace rewright::distribution
