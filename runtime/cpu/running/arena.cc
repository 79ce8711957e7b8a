#include "runtime/cpu/running/arena.h"

#include <algorithm>
#include <utility>

namespace rewright::cpu {

namespace {

bool is_smaller(const Tensor& a, const Tensor& b) { return a.size() < b.size(); }

}  // namespace

Tensor ArenaPool::take(std::size_t bytes) {
  std::size_t wanted = bytes;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(free_.begin(), free_.end(), [&](const Tensor& t) { return t.byte_count() >= bytes; });
    if (found != free_.end()) {
      Tensor arena = std::move(*found);
      free_.erase(found);
      return arena;
    }
    if (!free_.empty()) {  // sizes vary, and the next may be larger
      free_.pop_back();
      wanted += bytes / 8;
    }
  }
  return Tensor(DataType::kUint8, {static_cast<std::int64_t>(wanted)});
}

void ArenaPool::give_back(Tensor arena) {
  const std::lock_guard lock(mutex_);
  free_.insert(std::upper_bound(free_.begin(), free_.end(), arena, is_smaller), std::move(arena));
}

}  // namespace rewright::cpu
