// What was found out about functions of nodes, kept for all plans of a graph: what they were recognized as, which takes samples
// of them, and their definitions for operands of some sizes.
#pragma once

#include <any>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace rewright::cpu {

// Results by key; those that were not asked for in a long time are forgotten. May be used by several threads at once.
class Recollection {
 public:
  // Keeps `count` results that were asked for last, and up to as many others.
  explicit Recollection(std::size_t count) : count_(count) {}

  // What `find` returned when it was called with this key.
  template <class F>
  auto recall(std::uint64_t key, const F& find) -> decltype(find()) {
    using Result = decltype(find());
    {
      const std::lock_guard lock(mutex_);
      if (const std::any* const known = look_up(key)) return std::any_cast<const Result&>(*known);
    }
    Result result = find();
    const std::lock_guard lock(mutex_);
    add(key, result);
    return result;
  }

 private:
  const std::any* look_up(std::uint64_t key) {
    if (const auto known = recent_.find(key); known != recent_.end()) return &known->second;
    const auto known = older_.find(key);
    if (known == older_.end()) return nullptr;
    std::any value = std::move(known->second);
    add(key, std::move(value));
    return &recent_.at(key);
  }
  void add(std::uint64_t key, std::any value) {
    if (recent_.size() >= count_) older_ = std::exchange(recent_, {});
    recent_.insert_or_assign(key, std::move(value));
  }

  const std::size_t count_;
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::any> recent_, older_;
};

struct Recognitions {
  Recollection functions{4096};   // whatever the sizes are
  Recollection definitions{384};  // for the sizes of operands; they take some kilobytes each
};

}  // namespace rewright::cpu
