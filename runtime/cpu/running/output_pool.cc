#include "runtime/cpu/running/output_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/process_memory.h"

namespace rewright::cpu {

struct OutputPool::Blocks {
  static constexpr std::size_t kPage = 4096, kHugePage = std::size_t{2} << 20;
  static constexpr std::size_t kLeastBytes = std::size_t{64} << 10;  // smaller ones are malloc's

  struct Block {
    std::byte* at = nullptr;
    std::size_t bytes = 0;
  };

  // Up to an eighth more, so that outputs of nearly the same size find each other's memory.
  static std::size_t rounded(std::size_t bytes) {
    const std::size_t unit = std::max(kPage, std::bit_floor(bytes) / 8);
    return (bytes + unit - 1) / unit * unit;
  }

  // Straight from the system: blocks that come and go in all sizes would leave holes in the heap.
  static Block map(std::size_t bytes) {
    require_memory(bytes);
    void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
      throw Error(ErrorCode::kMissing, "not enough memory for a tensor of " + std::to_string(bytes) + " bytes");
    if (bytes >= 2 * kHugePage) ::madvise(at, bytes, MADV_HUGEPAGE);  // advice: small pages work as well
    return {static_cast<std::byte*>(at), bytes};
  }
  static void unmap(const Block& block) { ::munmap(block.at, block.bytes); }

  ~Blocks() {
    for (const Block& block : free) unmap(block);
  }

  Block take(std::size_t bytes) {
    {
      const std::lock_guard lock(mutex);
      // The smallest that is large enough. Whoever keeps a small output is not to keep a large block.
      auto best = free.end();
      for (auto at = free.begin(); at != free.end(); ++at)
        if (at->bytes >= bytes && at->bytes <= 2 * bytes && (best == free.end() || at->bytes < best->bytes)) best = at;
      if (best != free.end()) {
        const Block block = *best;
        free.erase(best);
        free_bytes -= block.bytes;
        count(block);
        return block;
      }
    }
    const Block block = map(bytes);
    const std::lock_guard lock(mutex);
    count(block);
    drop_oldest();
    return block;
  }

  void give_back(const Block& block) {
    const std::lock_guard lock(mutex);
    used_bytes -= block.bytes;
    free_bytes += block.bytes;
    free.push_back(block);
    drop_oldest();
  }

  void count(const Block& block) {
    used_bytes += block.bytes;
    most_used = std::max(most_used, used_bytes);
  }

  void drop_oldest() {
    auto kept = free.begin();
    for (; kept != free.end() && used_bytes + free_bytes > most_used; ++kept) {
      free_bytes -= kept->bytes;
      unmap(*kept);
    }
    free.erase(free.begin(), kept);
  }

  std::mutex mutex;
  std::vector<Block> free;  // in the order in which they were given back
  std::size_t free_bytes = 0, used_bytes = 0, most_used = 0;
};

OutputPool::OutputPool() : blocks_(std::make_shared<Blocks>()) {}

OutputPool::Output OutputPool::take(DataType type, const Sizes& sizes) {
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
      Blocks::unmap(block);
  });
  return {Tensor(type, sizes, owner, block.at), block.at};
}

}  // namespace rewright::cpu
