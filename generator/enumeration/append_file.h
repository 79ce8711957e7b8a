// A file that only grows, in entries with checksums: the entries up to a known length stay valid however the program ends.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace rewright::generator {

class AppendFile {
 public:
  // An empty path: a temporary file in `folder`, removed when this process ends.
  AppendFile(std::filesystem::path path, const std::filesystem::path& folder);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // Returns the offset of the entry's contents. Throws Error(kMissing) if there is no space.
  std::uint64_t append(std::uint32_t tag, std::string_view contents);
  std::uint64_t length() const { return length_; }
  void sync();  // brings everything appended onto the disk
  void clear();
  // Drops all bytes beyond a length, and visits each entry before it. Throws Error(kBadInput) if one is damaged.
  using Visit = std::function<void(std::uint32_t tag, std::uint64_t at, std::string_view contents)>;
  void restore(std::uint64_t length, const Visit& visit);
  void read(std::uint64_t at, void* to, std::size_t bytes) const;

 private:
  [[noreturn]] void fail() const;
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t length_ = 0, synced_ = 0;
};

std::uint64_t checksum(std::string_view bytes);

}  // namespace rewright::generator
