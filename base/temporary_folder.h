// Folders for temporary files.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "base/error.h"

namespace rewright {

// A new folder that only this user can read; the destructor removes it with its contents. Constructors throw Error(kMissing)
// if it cannot be made.
//
//   const TemporaryFolder folder;
//   write_file(folder / "model.onnx", bytes);
class TemporaryFolder {
 public:
  TemporaryFolder() : path_(made((base() / "rewright-").string(), "cannot make a temporary folder: ", base())) {}
  // Beside `target`, so that move_to(target) only renames it.
  explicit TemporaryFolder(const std::filesystem::path& target)
      : path_(made(target.string() + ".new.", "cannot be made: ", target)) {}
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

  // Renames the folder, which then stays. Throws Error(kMissing) if that is impossible.
  void move_to(const std::filesystem::path& target) {
    std::error_code error;
    std::filesystem::rename(path_, target, error);
    if (error) throw Error(ErrorCode::kMissing, "cannot be made: " + error.message(), target.string());
    path_.clear();
  }

 private:
  static std::filesystem::path base() {
    std::error_code error;
    const std::filesystem::path result = std::filesystem::temp_directory_path(error);
    return error ? "/tmp" : result;
  }
  static std::filesystem::path made(std::string prefix, const char* message, const std::filesystem::path& where) {
    prefix += "XXXXXX";
    if (::mkdtemp(prefix.data()) == nullptr)
      throw Error(ErrorCode::kMissing, message + std::string(std::strerror(errno)), where.string());
    return prefix;
  }

  std::filesystem::path path_;
};

}  // namespace rewright
