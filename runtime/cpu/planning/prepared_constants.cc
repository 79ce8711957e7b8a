#include "runtime/cpu/planning/prepared_constants.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <new>

namespace rewright::cpu {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kAlignment = 64;
// A block is twice as large as all before it together, within these bounds: a model of many small plans, such as a recurrent
// network's steps, would otherwise take a huge page and much address space for each.
constexpr std::size_t kLeastBlockBytes = std::size_t{64} << 10, kMostBlockBytes = std::size_t{64} << 20;

}  // namespace

void PackedConstants::Free::operator()(std::byte* p) const { std::free(p); }

const float* PackedConstants::find(const Key& key) const {
  const auto found = known_.find(key);
  return found == known_.end() ? nullptr : found->second;
}

const float* PackedConstants::add(std::optional<Key> key, std::int64_t floats, const std::function<void(float*)>& fill) {
  const std::size_t bytes = (static_cast<std::size_t>(floats) * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
  if (blocks_.empty() || bytes > size_ - used_) {  // a matrix without elements takes no bytes, but needs an address
    const std::size_t wanted = std::max(bytes, std::clamp(2 * total_, kLeastBlockBytes, kMostBlockBytes));
    const std::size_t unit = wanted < kHugePage ? kLeastBlockBytes : kHugePage;
    size_ = (wanted + unit - 1) / unit * unit;
    used_ = 0;
    auto* const block = static_cast<std::byte*>(std::aligned_alloc(unit, size_));
    if (block == nullptr) throw std::bad_alloc();
    blocks_.emplace_back(block);
    total_ += size_;
    if (unit == kHugePage) madvise(block, size_, MADV_HUGEPAGE);  // advice: small pages work as well
  }
  float* const target = reinterpret_cast<float*>(blocks_.back().get() + used_);
  used_ += bytes;
  fill(target);
  if (key) known_.emplace(*key, target);
  return target;
}

void PackedConstants::forget(std::span<const std::byte> source) {
  std::erase_if(known_, [&](const auto& entry) {
    const void* const at = std::get<0>(entry.first);
    return !std::less<>()(at, static_cast<const void*>(source.data())) &&
           std::less<>()(at, static_cast<const void*>(source.data() + source.size()));
  });
}

PreparedConstants::PreparedConstants(const Graph& graph, PlanCache* cache) : cache_(cache) {
  if (cache_ != nullptr) hashes_ = graph.value_hashes();
}

Tensor PreparedConstants::get(ValueId result, std::string_view how, std::size_t bytes,
                              const std::function<void(std::byte*)>& make) {
  if (cache_ != nullptr) return cache_->get(cache_name(hashes_[result], how), bytes, make);
  const auto floats = static_cast<std::int64_t>((bytes + sizeof(float) - 1) / sizeof(float));
  const float* const made = packed()->add(std::nullopt, floats, [&](float* to) { make(reinterpret_cast<std::byte*>(to)); });
  return {DataType::kUint8, {static_cast<std::int64_t>(bytes)}, packed_, reinterpret_cast<const std::byte*>(made)};
}

const std::shared_ptr<PackedConstants>& PreparedConstants::packed() {
  if (!packed_) packed_ = std::make_shared<PackedConstants>();
  return packed_;
}

void PreparedConstants::forget(std::span<const std::byte> source) {
  if (packed_) packed_->forget(source);
}

}  // namespace rewright::cpu
