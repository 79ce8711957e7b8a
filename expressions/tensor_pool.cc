#include "expressions/tensor_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "base/process_memory.h"

namespace rewright {

struct TensorPool::Blocks {
  static constexpr std::size_t kPage = 4096, kHugePage = std::size_t{2} << 20;
  static constexpr std::size_t kLeastBytes = std::size_t{64} << 10;  // smaller ones are malloc's

  struct Block {
    std::byte* at = nullptr;
    std::size_t bytes = 0;
  };

  // Up to an eighth more, so that outputs that grow by a little each time find the memory of earlier ones.
  static std::size_t rounded(std::size_t bytes) {
    const std::size_t unit = std::max(kPage, std::bit_floor(bytes) / 8);
    return (bytes + unit - 1) / unit * unit;
  }

  // Straight from the system: blocks that come and go in all sizes would leave holes in the heap.
  static Block map(std::size_t bytes) {
    require_memory(bytes);
    const bool is_huge = bytes >= 2 * kHugePage;
    const std::size_t all = is_huge ? bytes + kHugePage : bytes;
    void* const mapped = ::mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
      throw Error(ErrorCode::kMissing, "not enough memory for a tensor of " + std::to_string(bytes) + " bytes");
    auto* const begin = static_cast<std::byte*>(mapped);
    if (!is_huge) return {begin, bytes};
    // Huge pages begin at multiples of their size.
    const std::size_t before = (kHugePage - reinterpret_cast<std::uintptr_t>(begin) % kHugePage) % kHugePage;
    if (before > 0) unmap(begin, before);
    if (before < kHugePage) unmap(begin + before + bytes, kHugePage - before);
    ::madvise(begin + before, bytes, MADV_HUGEPAGE);  // advice: small pages work as well
    return {begin + before, bytes};
  }
  // Gives free ranges, which are too small, back to the system if it has no memory left, and asks once more.
  Block map_or_make_room(std::size_t bytes) {
    try {
      return map(bytes);
    } catch (const Error&) {
      const std::lock_guard lock(mutex);
      if (free.empty()) throw;
      for (const auto& [at, size] : free) unmap(at, size);
      free.clear();
      free_bytes = 0;
    }
    return map(bytes);
  }
  static void unmap(std::byte* at, std::size_t bytes) { ::munmap(at, bytes); }

  ~Blocks() {
    for (const auto& [at, bytes] : free) unmap(at, bytes);
  }

  Block take(std::size_t bytes) {
    {
      const std::lock_guard lock(mutex);
      const auto best = smallest_free(bytes);
      if (best != free.end()) {
        std::byte* const at = best->first;
        auto range = free.extract(best);
        range.key() += bytes;
        range.mapped() -= bytes;
        if (range.mapped() > 0) free.insert(std::move(range));
        free_bytes -= bytes;
        count(bytes);
        return {at, bytes};
      }
    }
    const Block block = map_or_make_room(bytes);
    const std::lock_guard lock(mutex);
    mapped_bytes += bytes;
    if (free_bytes >= bytes) most_between += bytes;  // enough, but not in one place
    count(bytes);
    drop_smallest();
    return block;
  }

  void give_back(const Block& block) {
    const std::lock_guard lock(mutex);
    used_bytes -= block.bytes;
    free_bytes += block.bytes;
    auto range = free.emplace(block.at, block.bytes).first;
    if (const auto next = std::next(range); next != free.end() && range->first + range->second == next->first) {
      range->second += next->second;
      free.erase(next);
    }
    if (range != free.begin()) {
      const auto before = std::prev(range);
      if (before->first + before->second == range->first) {
        before->second += range->second;
        free.erase(range);
      }
    }
    drop_smallest();
  }

  // The smallest free range of at least so many bytes.
  std::map<std::byte*, std::size_t>::iterator smallest_free(std::size_t bytes) {
    auto best = free.end();
    for (auto range = free.begin(); range != free.end(); ++range)
      if (range->second >= bytes && (best == free.end() || range->second < best->second)) best = range;
    return best;
  }

  void count(std::size_t bytes) {
    used_bytes += bytes;
    most_used = std::max(most_used, used_bytes);
    most_between = std::min(most_between, static_cast<std::size_t>(share_more * static_cast<double>(most_used)));
    most_kept = most_used + most_between;
  }

  // Pages that are too many go back to the system, those of the smallest ranges first: they fit the fewest outputs.
  void drop_smallest() {
    while (!free.empty() && used_bytes + free_bytes > most_kept) {
      const auto range = smallest_free(0);
      const std::size_t dropped = std::min(range->second, used_bytes + free_bytes - most_kept);
      range->second -= dropped;
      free_bytes -= dropped;
      unmap(range->first + range->second, dropped);
      if (range->second == 0) free.erase(range);
    }
  }

  std::mutex mutex;
  // Whole pages, by address; neighbours are one range, so that the memory of many small outputs serves a large one, and of a
  // large one many small ones.
  std::map<std::byte*, std::size_t> free;
  std::size_t free_bytes = 0, used_bytes = 0, most_used = 0, most_between = 0, most_kept = 0, mapped_bytes = 0;
  double share_more = 0;
};

TensorPool::TensorPool(double share_more) : blocks_(std::make_shared<Blocks>()) { blocks_->share_more = share_more; }

std::size_t TensorPool::mapped_bytes() const {
  const std::lock_guard lock(blocks_->mutex);
  return blocks_->mapped_bytes;
}

std::size_t TensorPool::kept_bytes() const {
  const std::lock_guard lock(blocks_->mutex);
  return blocks_->used_bytes + blocks_->free_bytes;
}

TensorPool::Output TensorPool::take(DataType type, const Sizes& sizes) {
  std::size_t bytes = 0;
  const bool overflows = __builtin_mul_overflow(static_cast<std::size_t>(element_count(sizes)), byte_size(type), &bytes);
  if (overflows || bytes < Blocks::kLeastBytes || bytes > (std::size_t{1} << 46)) {  // Tensor says what is wrong
    Tensor tensor(type, sizes);
    std::byte* const at = tensor.mutable_bytes().data();
    return {std::move(tensor), at};
  }
  const Blocks::Block block = blocks_->take(Blocks::rounded(bytes));
  const std::shared_ptr<const void> owner(block.at, [block, blocks = std::weak_ptr<Blocks>(blocks_)](const void*) {
    if (const std::shared_ptr<Blocks> pool = blocks.lock())
      pool->give_back(block);
    else
      Blocks::unmap(block.at, block.bytes);
  });
  return {Tensor(type, sizes, owner, block.at), block.at};
}

TensorPool::Output TensorPool::take_from(TensorPool* pool, DataType type, const Sizes& sizes) {
  if (pool) return pool->take(type, sizes);
  Tensor tensor(type, sizes);
  std::byte* const at = tensor.size() > 0 ? tensor.mutable_bytes().data() : nullptr;
  return {std::move(tensor), at};
}

}  // namespace rewright
