#include "base/only_copy.h"

#include <xxhash.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace rewright {

namespace {

constexpr std::size_t kLeastBytes = std::size_t{16} << 10;  // not worth a look for less

// The bytes in use, by their hashes. It lives as long as somebody has some.
class Copies : public std::enable_shared_from_this<Copies> {
 public:
  static std::shared_ptr<Copies> of_process() {
    static std::mutex mutex;
    static std::weak_ptr<Copies> known;
    const std::lock_guard lock(mutex);
    std::shared_ptr<Copies> copies = known.lock();
    if (!copies) known = copies = std::make_shared<Copies>();
    return copies;
  }

  std::shared_ptr<std::byte> find(std::span<const std::byte> bytes) { return find(key_of(bytes), bytes.data()); }

  std::shared_ptr<std::byte> only(std::shared_ptr<std::byte> piece, std::size_t bytes) {
    std::byte* const address = piece.get();
    const Key key = key_of({address, bytes});
    if (std::shared_ptr<std::byte> known = find(key, address)) return known;
    const auto place = std::make_shared<std::optional<Pieces::iterator>>();
    std::shared_ptr<std::byte> shared(address, [self = shared_from_this(), piece = std::move(piece), place](std::byte*) {
      if (!*place) return;
      const std::lock_guard lock(self->mutex_);
      self->pieces_.erase(**place);
    });
    const std::lock_guard lock(mutex_);
    *place = pieces_.emplace(key, shared);
    return shared;
  }

 private:
  using Key = std::pair<std::uint64_t, std::size_t>;
  using Pieces = std::multimap<Key, std::weak_ptr<std::byte>>;

  static Key key_of(std::span<const std::byte> bytes) { return {XXH3_64bits(bytes.data(), bytes.size()), bytes.size()}; }

  std::shared_ptr<std::byte> find(const Key& key, const std::byte* bytes) {
    std::vector<std::shared_ptr<std::byte>> candidates;  // let go without the lock: they may be the last of their pieces
    {
      const std::lock_guard lock(mutex_);
      const auto [first, last] = pieces_.equal_range(key);
      for (auto at = first; at != last; ++at)
        if (std::shared_ptr<std::byte> piece = at->second.lock()) candidates.push_back(std::move(piece));
    }
    for (std::shared_ptr<std::byte>& piece : candidates)
      if (std::memcmp(piece.get(), bytes, key.second) == 0) return std::move(piece);
    return nullptr;
  }

  std::mutex mutex_;
  Pieces pieces_;
};

}  // namespace

std::shared_ptr<std::byte> known_copy(std::span<const std::byte> bytes) {
  return bytes.size() < kLeastBytes ? nullptr : Copies::of_process()->find(bytes);
}

std::shared_ptr<std::byte> only_copy(std::shared_ptr<std::byte> piece, std::size_t bytes) {
  return bytes < kLeastBytes ? piece : Copies::of_process()->only(std::move(piece), bytes);
}

}  // namespace rewright
