#include "graph/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

namespace rewright::graph {

namespace {

// A descriptor that is closed.
struct FileDescriptor {
  int number = -1;
  ~FileDescriptor() {
    if (number >= 0) ::close(number);
  }
};

// Ends a mapping.
struct Unmap {
  std::size_t size;
  void operator()(const void* address) const { ::munmap(const_cast<void*>(address), size); }
};

// Mapped files of the process. Two graphs of one file have the same memory then, so that weights packed for one of them are
// known for the other.
class Mappings {
 public:
  static Mappings& of_process() {
    static Mappings mappings;
    return mappings;
  }

  // Null if it cannot be mapped. A file that is in place of another one, or was written since, is mapped anew.
  std::shared_ptr<const void> map(int descriptor, const struct stat& status) {
    const auto size = static_cast<std::size_t>(status.st_size);
    const Key key{status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
    const std::lock_guard lock(mutex_);
    std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
    if (const auto found = known_.find(key); found != known_.end())
      if (std::shared_ptr<const void> mapping = found->second.lock()) return mapping;
    void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (address == MAP_FAILED) return nullptr;
    std::shared_ptr<const void> mapping(static_cast<const void*>(address), Unmap{size});
    known_[key] = mapping;
    return mapping;
  }

 private:
  using Key = std::tuple<dev_t, ino_t, off_t, time_t, long>;
  std::mutex mutex_;
  std::map<Key, std::weak_ptr<const void>> known_;
};

[[noreturn]] void cannot_read(const std::filesystem::path& file, int error) {
  throw Error(ErrorCode::kBadInput, std::string("cannot be read: ") + std::strerror(error), file.string());
}

FileBytes read_stream(int descriptor, const std::filesystem::path& file) {
  auto content = std::make_shared<std::vector<std::byte>>();
  std::vector<std::byte> chunk(1 << 16);
  for (;;) {
    const ssize_t count = ::read(descriptor, chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) cannot_read(file, errno);
    if (count == 0) break;
    content->insert(content->end(), chunk.begin(), chunk.begin() + count);
  }
  return {content, {content->data(), content->size()}};
}

}  // namespace

FileBytes map_file(const std::filesystem::path& file) {
  FileDescriptor descriptor{::open(file.c_str(), O_RDONLY | O_CLOEXEC)};
  if (descriptor.number < 0) cannot_read(file, errno);
  struct stat status {};
  if (::fstat(descriptor.number, &status) != 0) cannot_read(file, errno);
  if (S_ISDIR(status.st_mode)) cannot_read(file, EISDIR);
  if (!S_ISREG(status.st_mode) || status.st_size == 0) return read_stream(descriptor.number, file);
  const auto size = static_cast<std::size_t>(status.st_size);
  std::shared_ptr<const void> owner = Mappings::of_process().map(descriptor.number, status);
  if (!owner) cannot_read(file, errno);
  const auto* const bytes = static_cast<const std::byte*>(owner.get());
  return {std::move(owner), {bytes, size}};
}

void release_pages(const FileBytes& file) {
  if (std::get_deleter<Unmap>(file.owner) != nullptr)
    ::madvise(const_cast<std::byte*>(file.bytes.data()), file.bytes.size(), MADV_DONTNEED);
}

FileWriter::FileWriter(std::filesystem::path file) : file_(std::move(file)) {
  // A link is written through, as an editor would do.
  std::error_code ignored;
  if (std::filesystem::is_symlink(file_, ignored)) {
    auto target = std::filesystem::weakly_canonical(file_, ignored);
    if (!ignored) file_ = target;
  }
  for (int attempt = 0; attempt < 100; ++attempt) {
    temporary_ = file_;
    temporary_ += ".tmp" + std::to_string(::getpid()) + (attempt == 0 ? "" : "." + std::to_string(attempt));
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ >= 0) return;
    if (errno != EEXIST) break;
  }
  const int error = errno;
  temporary_.clear();
  fail(error);
}

FileWriter::~FileWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void FileWriter::fail(int error) {
  throw Error(ErrorCode::kMissing, std::string("cannot be written: ") + std::strerror(error), file_.string());
}

void FileWriter::write(std::string_view bytes) {
  constexpr std::size_t kBuffer = 1 << 20;
  written_ += bytes.size();
  if (buffer_.size() + bytes.size() > kBuffer) {
    put(buffer_);
    buffer_.clear();
  }
  if (bytes.size() > kBuffer)
    put(bytes);
  else
    buffer_.append(bytes);
}

void FileWriter::put(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), std::min<std::size_t>(bytes.size(), 1 << 30));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(errno);
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

void FileWriter::finish() {
  if (descriptor_ < 0) return;
  put(buffer_);
  buffer_.clear();
  if (::fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) fail(errno);
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (::close(descriptor) != 0) fail(errno);
}

void FileWriter::commit() {
  finish();
  if (::rename(temporary_.c_str(), file_.c_str()) != 0) fail(errno);
  temporary_.clear();
}

void write_file(const std::filesystem::path& file, std::string_view bytes) {
  FileWriter writer(file);
  writer.write(bytes);
  writer.commit();
}

}  // namespace rewright::graph
