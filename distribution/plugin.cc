#include "distribution/plugin.h"

#include "base/own_folder.h"

namespace rewright::distribution {

std::filesystem::path find_plugin(const std::string& file) {
  std::error_code ignored;
  const std::filesystem::path own = own_folder();
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const std::filesystem::path& folder :
       {own, own / "rewright", own / ".." / REWRIGHT_LIBRARY_FOLDER / "rewright", program})
    if (std::filesystem::exists(folder / file, ignored)) return folder / file;
  return {};
}

}  // namespace rewright::distribution
