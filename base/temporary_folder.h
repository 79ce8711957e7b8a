// Folders for temporary files.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "base/error.h"

namespace rewright {

// A new folder that only this user can read; the destructor removes it with its contents. The constructor throws
// Error(kMissing) if it cannot be made.
//
//   const TemporaryFolder folder;
//   write_file(folder / "model.onnx", bytes);
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code error;
    std::filesystem::path base = std::filesystem::temp_directory_path(error);
    if (error) base = "/tmp";
    std::string name = (base / "rewright-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw Error(ErrorCode::kMissing, std::string("cannot make a temporary folder: ") + std::strerror(errno), base.string());
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace rewright
