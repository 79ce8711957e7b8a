#include "generator/enumeration/append_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace rewright::generator {

namespace {

struct Header {
  std::uint32_t tag = 0, bytes = 0;
  std::uint64_t checksum = 0;  // of the contents and the tag
};

std::uint64_t entry_checksum(std::uint32_t tag, std::string_view contents) {
  return XXH3_64bits_withSeed(contents.data(), contents.size(), tag);
}

}  // namespace

std::uint64_t checksum(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

AppendFile::AppendFile(std::filesystem::path path, const std::filesystem::path& folder) : path_(std::move(path)) {
  if (!path_.empty()) {
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor_ < 0) fail();
    return;
  }
  std::string name = (folder / "rewright-XXXXXX").string();
  descriptor_ = ::mkostemp(name.data(), O_CLOEXEC);
  path_ = name;
  if (descriptor_ < 0) fail();
  ::unlink(name.c_str());
}

AppendFile::~AppendFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void AppendFile::fail() const {
  throw Error(ErrorCode::kMissing, std::string("cannot be written: ") + std::strerror(errno), path_.string());
}

std::uint64_t AppendFile::append(std::uint32_t tag, std::string_view contents) {
  const Header header{tag, static_cast<std::uint32_t>(contents.size()), entry_checksum(tag, contents)};
  const auto put = [&](std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(length_));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail();
      bytes.remove_prefix(static_cast<std::size_t>(count));
      length_ += static_cast<std::uint64_t>(count);
    }
  };
  put({reinterpret_cast<const char*>(&header), sizeof(header)});
  const std::uint64_t at = length_;
  put(contents);
  return at;
}

void AppendFile::sync() {
  if (synced_ == length_) return;
  if (::fdatasync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) fail();
  synced_ = length_;
}

void AppendFile::clear() {
  if (::ftruncate(descriptor_, 0) != 0) fail();
  length_ = 0;
  synced_ = ~std::uint64_t{0};  // no length: the next sync() is not skipped
}

void AppendFile::read(std::uint64_t at, void* to, std::size_t bytes) const {
  char* target = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t count = ::pread(descriptor_, target, bytes, static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw Error(ErrorCode::kBadInput, std::string("cannot be read: ") + std::strerror(errno), path_.string());
    if (count == 0) throw Error(ErrorCode::kBadInput, "the file ends too early: it is damaged", path_.string());
    at += static_cast<std::uint64_t>(count), target += count, bytes -= static_cast<std::size_t>(count);
  }
}

void AppendFile::restore(std::uint64_t length, const Visit& visit) {
  std::string contents;
  for (length_ = 0; length_ < length;) {
    Header header;
    read(length_, &header, sizeof(header));
    if (header.bytes > length - length_) throw Error(ErrorCode::kBadInput, "the file is damaged", path_.string());
    contents.resize(header.bytes);
    const std::uint64_t at = length_ + sizeof(header);
    read(at, contents.data(), contents.size());
    if (entry_checksum(header.tag, contents) != header.checksum)
      throw Error(ErrorCode::kBadInput, "the file is damaged", path_.string());
    visit(header.tag, at, contents);
    length_ = at + header.bytes;
  }
  if (length_ != length) throw Error(ErrorCode::kBadInput, "the file is damaged", path_.string());
  if (::ftruncate(descriptor_, static_cast<off_t>(length)) != 0) fail();
}

}  // namespace rewright::generator
