// Files: read by mapping, written whole or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace rewright::graph {

// The bytes of a file, and what keeps them alive.
struct FileBytes {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
};

// Maps a regular file into memory; anything else (a pipe) is read. Throws Error(kBadInput) if it cannot be read.
FileBytes map_file(const std::filesystem::path& file);

// Releases the memory that a mapped file's pages take in this process. Reading them maps them again.
void release_pages(const FileBytes& file);

// Writes a file under a temporary name in the same folder; commit() renames it. Without commit() the temporary file is removed
// and an existing file stays as it was. Throws Error(kMissing) without space or permission.
//
//   FileWriter writer("model.onnx");
//   writer.write(bytes);
//   writer.commit();
class FileWriter {
 public:
  explicit FileWriter(std::filesystem::path file);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(std::string_view bytes);
  void write(std::span<const std::byte> bytes) {
    write(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  std::size_t written() const { return written_; }
  const std::filesystem::path& temporary() const { return temporary_; }
  void finish();  // writes all bytes to the disk, still under the temporary name
  void commit();  // finish() and rename

 private:
  void put(std::string_view bytes);
  [[noreturn]] void fail(int error);
  std::filesystem::path file_, temporary_;
  int descriptor_ = -1;
  std::size_t written_ = 0;
  std::string buffer_;
};

// Writes a whole file with FileWriter.
void write_file(const std::filesystem::path& file, std::string_view bytes);

}  // namespace rewright::graph
