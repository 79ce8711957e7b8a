#include "runtime/cpu/planning/constant_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <new>

namespace rewright::cpu {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
// Each block is twice as large as all earlier ones together, within these bounds: otherwise a model with many small plans, such
// as the steps of a recurrent network, would use a huge page and much address space for each.
constexpr std::size_t kLeastBlockBytes = std::size_t{64} << 10, kMostBlockBytes = std::size_t{64} << 20;
constexpr std::size_t kPieceAlignment = 64;

}  // namespace

ConstantMemory::~ConstantMemory() {
  for (const auto& [block, size] : blocks_) std::free(block);
}

std::shared_ptr<std::byte> ConstantMemory::allocate(std::size_t bytes) {
  // An empty matrix needs an address, but no bytes.
  const std::size_t taken = (std::max<std::size_t>(bytes, 1) + kPieceAlignment - 1) / kPieceAlignment * kPieceAlignment;
  std::byte* const at = take(taken);
  return {at, [self = shared_from_this(), taken](std::byte* piece) { self->give_back(piece, taken); }};
}

std::byte* ConstantMemory::take(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  // The smallest free range that is large enough, before the rest of a block.
  auto best = free_.end();
  for (auto range = free_.begin(); range != free_.end(); ++range)
    if (range->second >= bytes && (best == free_.end() || range->second < best->second)) best = range;
  if (best == free_.end()) {
    const std::size_t wanted = std::max(bytes, std::clamp(2 * total_, kLeastBlockBytes, kMostBlockBytes));
    const std::size_t unit = wanted < kHugePage ? kLeastBlockBytes : kHugePage;
    const std::size_t size = (wanted + unit - 1) / unit * unit;
    auto* const block = static_cast<std::byte*>(std::aligned_alloc(unit, size));
    if (block == nullptr) throw std::bad_alloc();
    if (unit == kHugePage) madvise(block, size, MADV_HUGEPAGE);  // advice: small pages work as well
    blocks_.emplace(block, size);
    total_ += size;
    best = free_.emplace(block, size).first;
  }
  const auto [at, size] = *best;
  free_.erase(best);
  if (size > bytes) free_.emplace(at + bytes, size - bytes);
  return at;
}

void ConstantMemory::give_back(std::byte* at, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  auto range = free_.emplace(at, bytes).first;
  if (const auto next = std::next(range);
      next != free_.end() && range->first + range->second == next->first && !blocks_.contains(next->first)) {
    range->second += next->second;
    free_.erase(next);
  }
  if (range != free_.begin() && !blocks_.contains(range->first)) {
    const auto before = std::prev(range);
    if (before->first + before->second == range->first) {
      before->second += range->second;
      free_.erase(range);
      range = before;
    }
  }
  const auto block = blocks_.find(range->first);
  if (block == blocks_.end() || block->second != range->second) return;
  total_ -= block->second;
  std::free(block->first);
  blocks_.erase(block);
  free_.erase(range);
}

}  // namespace rewright::cpu
