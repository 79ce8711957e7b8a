// Packed constants: made once for all plans of a graph, or read from a plan cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/cpu/planning/constant_memory.h"
#include "runtime/cpu/planning/plan_cache.h"

namespace rewright::cpu {

// The origin of a packed constant: tensors, identified by their address, and numbers. Equal origins give equal bytes, whatever
// the sizes of other tensors in the graph.
class ConstantOrigin {
 public:
  ConstantOrigin() = default;
  explicit ConstantOrigin(const Tensor& tensor) { add(tensor); }
  ConstantOrigin& add(const Tensor& tensor);
  ConstantOrigin& add(std::span<const double> numbers) { return add_bytes(std::as_bytes(numbers)); }
  ConstantOrigin& add(std::span<const float> numbers) { return add_bytes(std::as_bytes(numbers)); }
  ConstantOrigin& add(std::span<const int> numbers) { return add_bytes(std::as_bytes(numbers)); }
  ConstantOrigin& add(std::int64_t number) { return add_bytes(std::as_bytes(std::span(&number, 1))); }
  ConstantOrigin& add(const ConstantOrigin& other);

  const std::vector<Tensor>& tensors() const { return tensors_; }
  // Equal for equal origins, as long as the tensors exist.
  const std::string& key() const { return key_; }
  // A hash of the tensors' contents, the same in every process.
  std::uint64_t content_hash() const;

 private:
  ConstantOrigin& add_bytes(std::span<const std::byte> bytes);

  std::vector<Tensor> tensors_;
  std::string key_, numbers_;
};

// Thread-safe. A constant that only one plan requested may depend on that plan's sizes, like a table of positions, and is
// dropped some plans later. Constants requested by two plans stay.
class PreparedConstants {
 public:
  // `plans`: made for each new set of sizes.
  explicit PreparedConstants(int plans = 1) : plans_(plans) {}
  // Marks the beginning of another plan.
  void begin_plan();

  // Bytes computed from constants: existing ones, or those in the cache (may be null), or written by `make` into memory aligned
  // to 64 bytes. `how` distinguishes forms of one origin. The tensor keeps its memory alive.
  // `is_new` (may be null) is set: was it unknown, as has() tells?
  Tensor get(const ConstantOrigin& origin, std::string_view how, std::size_t bytes, PlanCache* cache,
             const std::function<void(std::byte*)>& make, bool* is_new = nullptr);
  // Was this made before?
  bool has(const ConstantOrigin& origin, std::string_view how) const;
  // Forgets constants made from these bytes, whose memory may be reused. Users keep their copies.
  void forget(std::span<const std::byte> source);

  // Values computed from constants alone, by the computation's name; empty: unknown.
  Tensor folded(std::uint64_t name);
  void add_folded(std::uint64_t name, Tensor value);

 private:
  struct Made {
    Tensor bytes;
    std::vector<Tensor> origin;
    std::int64_t plan = 0;  // for which it was made
    bool shared = false;    // by several plans
  };
  // Marks it as requested by another plan.
  Tensor use(Made& made) const;
  Made& add(const std::string& key, Tensor bytes, std::vector<Tensor> origin);

  mutable std::mutex mutex_;
  const int plans_;
  std::int64_t plan_ = 0;
  std::shared_ptr<ConstantMemory> memory_ = ConstantMemory::make();
  std::unordered_map<std::string, Made> made_;
  std::deque<std::pair<std::int64_t, std::string>> recent_;  // by plan: what it has made, until that is old or shared
  std::set<std::uint64_t> forgotten_;                        // hashes of keys
};

}  // namespace rewright::cpu
