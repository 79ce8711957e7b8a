// Constants in the form that kernels read, such as packed weights: made once for all plans of a graph, or taken from a plan
// cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cpu/planning/constant_memory.h"
#include "runtime/cpu/planning/plan_cache.h"

namespace rewright::cpu {

// What a kernel's form of constants is computed from: tensors, which are known by where they lie, and numbers. Two equal
// origins stand for equal bytes, whatever the sizes of the other tensors of the graph are.
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
  // Equal origins have equal keys, as long as the tensors are alive.
  const std::string& key() const { return key_; }
  // A hash that is the same in every process: of the tensors' contents.
  std::uint64_t content_hash() const;

 private:
  ConstantOrigin& add_bytes(std::span<const std::byte> bytes);

  std::vector<Tensor> tensors_;
  std::string key_, numbers_;
};

// May be used by several threads at once. What only one plan has asked for may depend on that plan's sizes, as a table of
// positions does: it is forgotten some plans later. What two have asked for is kept.
class PreparedConstants {
 public:
  // `plans`: that are made for each new set of sizes.
  explicit PreparedConstants(int plans = 1) : plans_(plans) {}
  // Says that another plan is made from here on.
  void begin_plan();

  // Bytes computed from constants: those that were made before, or those of the cache (may be null), or written by `make` into
  // memory aligned to 64. `how` tells apart what is made of one origin. The tensor keeps its memory alive.
  Tensor get(const ConstantOrigin& origin, std::string_view how, std::size_t bytes, PlanCache* cache,
             const std::function<void(std::byte*)>& make);
  // Was this made before?
  bool has(const ConstantOrigin& origin, std::string_view how) const;
  // Forgets what was made from these bytes, whose memory may be used again; what was made stays with those who have it.
  void forget(std::span<const std::byte> source);

  // Values computed from constants alone, by a name for the computation; an empty tensor: not known.
  Tensor folded(std::uint64_t name);
  void add_folded(std::uint64_t name, Tensor value);

 private:
  struct Made {
    Tensor bytes;
    std::vector<Tensor> origin;
    std::int64_t plan = 0;  // for which it was made
    bool shared = false;    // by several plans
  };
  // Another plan asks for it.
  Tensor use(Made& made) const;
  Made& add(const std::string& key, Tensor bytes, std::vector<Tensor> origin);

  mutable std::mutex mutex_;
  const int plans_;
  std::int64_t plan_ = 0;
  std::shared_ptr<ConstantMemory> memory_ = ConstantMemory::make();
  std::map<std::string, Made, std::less<>> made_;
  std::set<std::uint64_t> forgotten_;  // hashes of keys
};

}  // namespace rewright::cpu
