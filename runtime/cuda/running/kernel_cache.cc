#include "runtime/cuda/running/kernel_cache.h"

#include <cstdio>

#include "expressions/tensor.h"
#include "graph/file.h"

namespace rewright::cuda {

namespace {

constexpr const char* kMark = "rewright kernels 1\n";

std::uint64_t content_hash_of(const std::string& text) {
  Tensor bytes(DataType::kUint8, {static_cast<std::int64_t>(text.size())});
  std::copy(text.begin(), text.end(), reinterpret_cast<char*>(bytes.mutable_bytes().data()));
  return bytes.content_hash();
}

}  // namespace

std::string compiled(Driver& driver, const std::string& source, const std::filesystem::path& folder) {
  if (folder.empty()) return driver.compile(source);
  // The file also contains the whole key, since hashes may collide.
  const std::string key =
      kMark + std::to_string(driver.architecture()) + "\n" + driver.library_versions() + "\n" + source + '\0';
  char name[40];
  std::snprintf(name, sizeof(name), "%016llx.kernels", static_cast<unsigned long long>(content_hash_of(key)));
  const std::filesystem::path file = folder / name;
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored)) {
    const FileBytes bytes = map_file(file);
    if (bytes.text().starts_with(key)) return std::string(bytes.text().substr(key.size()));
  }
  std::string binary = driver.compile(source);
  std::filesystem::create_directories(folder, ignored);
  try {
    write_file(file, key + binary);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kMissing) throw;
  }
  return binary;
}

}  // namespace rewright::cuda
