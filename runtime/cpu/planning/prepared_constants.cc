#include "runtime/cpu/planning/prepared_constants.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "base/hash_mix.h"
#include "base/only_copy.h"

namespace rewright::cpu {

namespace {

template <class T>
void append(std::string& text, const T& word) {
  text.append(reinterpret_cast<const char*>(&word), sizeof word);
}

std::string made_key(const ConstantOrigin& origin, std::string_view how) {
  std::string key = origin.key();
  append(key, how.size());
  key += how;
  return key;
}

std::string folded_key(std::uint64_t name) {
  std::string key = "folded ";
  append(key, name);
  return key;
}

}  // namespace

ConstantOrigin& ConstantOrigin::add(const Tensor& tensor) {
  constexpr std::size_t kUsual = 256;  // bytes of keys
  key_.reserve(kUsual);
  append(key_, tensor.bytes().data());
  append(key_, tensor.type());
  append(key_, tensor.sizes().size());
  for (const std::int64_t size : tensor.sizes()) append(key_, size);
  tensors_.push_back(tensor);
  return *this;
}

ConstantOrigin& ConstantOrigin::add(const ConstantOrigin& other) {
  key_ += other.key_;
  numbers_ += other.numbers_;
  tensors_.insert(tensors_.end(), other.tensors_.begin(), other.tensors_.end());
  return *this;
}

ConstantOrigin& ConstantOrigin::add_bytes(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  for (std::string* const text : {&key_, &numbers_}) {
    append(*text, bytes.size());
    append(*text, hash.high64);
    append(*text, hash.low64);
  }
  return *this;
}

std::uint64_t ConstantOrigin::content_hash() const {
  std::uint64_t result = XXH3_64bits(numbers_.data(), numbers_.size());
  for (const Tensor& tensor : tensors_) result = hash_mix(result, tensor.content_hash());
  return result;
}

void PreparedConstants::begin_plan() {
  constexpr std::int64_t kKeptFor = 4;  // sets of sizes
  const std::lock_guard lock(mutex_);
  ++plan_;
  for (; !recent_.empty() && plan_ - recent_.front().first > kKeptFor * plans_; recent_.pop_front()) {
    const auto& [plan, key] = recent_.front();
    const auto found = made_.find(key);
    if (found == made_.end() || found->second.shared || found->second.plan != plan) continue;  // or made again since
    forgotten_.insert(XXH3_64bits(key.data(), key.size()));
    made_.erase(found);
  }
}

Tensor PreparedConstants::use(Made& made) const {
  made.shared = made.shared || made.plan != plan_;
  return made.bytes;
}

PreparedConstants::Made& PreparedConstants::add(const std::string& key, Tensor bytes, std::vector<Tensor> origin) {
  const bool again = forgotten_.erase(XXH3_64bits(key.data(), key.size())) > 0;
  if (!again) recent_.emplace_back(plan_, key);
  return made_.insert_or_assign(key, Made{std::move(bytes), std::move(origin), plan_, again}).first->second;
}

Tensor PreparedConstants::get(const ConstantOrigin& origin, std::string_view how, std::size_t bytes, PlanCache* cache,
                              const std::function<void(std::byte*)>& make, bool* is_new) {
  const std::string key = made_key(origin, how);
  const std::lock_guard lock(mutex_);
  const auto known = made_.find(key);
  if (is_new != nullptr) *is_new = known == made_.end();
  if (known != made_.end() && known->second.bytes.byte_count() == bytes) return use(known->second);
  const std::uint64_t name = cache == nullptr ? 0 : cache_name(origin.content_hash(), how);
  Tensor made = cache == nullptr ? Tensor() : cache->find(name);
  if (!made || made.byte_count() != bytes) {
    std::shared_ptr<std::byte> at = memory_->allocate(bytes);
    make(at.get());
    at = only_copy(std::move(at), bytes);
    made = Tensor(DataType::kUint8, {static_cast<std::int64_t>(bytes)}, at, at.get());
    if (cache != nullptr) cache->add(name, made);
  }
  return add(key, std::move(made), origin.tensors()).bytes;
}

bool PreparedConstants::has(const ConstantOrigin& origin, std::string_view how) const {
  const std::lock_guard lock(mutex_);
  return made_.contains(made_key(origin, how));
}

void PreparedConstants::forget(std::span<const std::byte> source) {
  const auto is_within = [&](const Tensor& tensor) {
    const std::byte* const at = tensor.bytes().data();
    return !std::less<>()(at, source.data()) && std::less<>()(at, source.data() + source.size());
  };
  const std::lock_guard lock(mutex_);
  std::erase_if(
      made_, [&](const auto& entry) { return std::any_of(entry.second.origin.begin(), entry.second.origin.end(), is_within); });
}

Tensor PreparedConstants::folded(std::uint64_t name) {
  const std::lock_guard lock(mutex_);
  const auto found = made_.find(folded_key(name));
  return found == made_.end() ? Tensor() : use(found->second);
}

void PreparedConstants::add_folded(std::uint64_t name, Tensor value) {
  const std::lock_guard lock(mutex_);
  add(folded_key(name), std::move(value), {});
}

}  // namespace rewright::cpu
