#include "base/own_folder.h"

#include <dlfcn.h>
#include <link.h>

namespace rewright {

std::filesystem::path own_folder() {
  std::error_code error;
  Dl_info info{};
  link_map* map = nullptr;
  const bool known =
      ::dladdr1(reinterpret_cast<void*>(&own_folder), &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) != 0;
  // In the list of loaded objects the program itself has an empty name.
  const bool is_library = known && map != nullptr && map->l_name != nullptr && map->l_name[0] != '\0';
  const auto file =
      is_library ? std::filesystem::canonical(map->l_name, error) : std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::filesystem::path() : file.parent_path();
}

}  // namespace rewright
