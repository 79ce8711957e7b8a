// Files beside models.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace rewright::graph {

// The files that a model has weights in beside its own, relative to its folder, in order. Throws Error(kBadInput).
std::vector<std::string> external_files(const std::filesystem::path& file);

}  // namespace rewright::graph
