#include "runtime/cpu/backend/sized_plans.h"

#include <algorithm>

namespace rewright::cpu {

namespace {

constexpr std::size_t kMostPlans = 16;

}  // namespace

std::shared_ptr<PlanRunner> SizedPlans::get(const std::vector<Sizes>& sizes, const Make& make) {
  if (auto known = find(sizes)) return known;
  const std::lock_guard one_at_a_time(making_);
  if (auto known = find(sizes)) return known;  // another thread has made it
  std::shared_ptr<PlanRunner> made = make();
  const std::lock_guard lock(mutex_);
  while (plans_.size() >= kMostPlans) drop_oldest();
  plans_[sizes] = {made, ++time_};
  return last_ = made;
}

std::shared_ptr<PlanRunner> SizedPlans::find(const std::vector<Sizes>& sizes) {
  const std::lock_guard lock(mutex_);
  const auto found = plans_.find(sizes);
  if (found == plans_.end()) return nullptr;
  found->second.used = ++time_;
  return last_ = found->second.plan;
}

std::shared_ptr<PlanRunner> SizedPlans::last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

void SizedPlans::drop_oldest() {
  plans_.erase(std::min_element(plans_.begin(), plans_.end(),
                                [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
}

}  // namespace rewright::cpu
