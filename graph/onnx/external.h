// Files with a model's weights.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace rewright::graph {

// The paths of the files in which a model stores weights, relative to the model's folder, sorted. Throws Error(kBadInput).
std::vector<std::string> external_files(const std::filesystem::path& file);

}  // namespace rewright::graph
