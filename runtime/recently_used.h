// A cache by keys that keeps the values asked for last.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace rewright::runtime {

// May be used by several threads at once. Values may still be used after they were dropped.
template <class Key, class Value>
class RecentlyUsed {
 public:
  explicit RecentlyUsed(std::size_t most) : most_(most) {}

  // The value of this key; `make` makes it where there is none. One is made at a time, and meanwhile those that are there are
  // found. The one that was asked for the longest time ago is dropped where there are too many.
  template <class Make>
  std::shared_ptr<Value> get(const Key& key, const Make& make) {
    if (auto known = find(key)) return known;
    const std::lock_guard one_at_a_time(making_);
    if (auto known = find(key)) return known;  // another thread has made it
    std::shared_ptr<Value> made = make();
    put(key, made);
    return made;
  }

  // Null: there is none.
  std::shared_ptr<Value> find(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    if (found == values_.end()) return nullptr;
    found->second.used = ++time_;
    return last_ = found->second.value;
  }

  void put(const Key& key, std::shared_ptr<Value> value) {
    const std::lock_guard lock(mutex_);
    while (values_.size() >= most_) drop_oldest();
    last_ = value;
    values_.insert_or_assign(key, Entry{std::move(value), ++time_});
  }

  // The one that was asked for last; null: none was.
  std::shared_ptr<Value> last() const {
    const std::lock_guard lock(mutex_);
    return last_;
  }

  template <class Visit>
  void for_each(const Visit& visit) const {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, entry] : values_) visit(*entry.value);
  }

 private:
  struct Entry {
    std::shared_ptr<Value> value;
    std::uint64_t used = 0;  // a number that grows with time
  };

  void drop_oldest() {
    values_.erase(std::min_element(values_.begin(), values_.end(),
                                   [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
  }

  const std::size_t most_;
  std::mutex making_;
  mutable std::mutex mutex_;  // of what follows
  std::map<Key, Entry> values_;
  std::shared_ptr<Value> last_;
  std::uint64_t time_ = 0;
};

}  // namespace rewright::runtime
