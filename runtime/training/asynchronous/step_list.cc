#include "runtime/training/asynchronous/step_list.h"

#include <algorithm>

namespace rewright::training {

std::optional<std::int64_t> StepList::give(std::size_t worker, std::int64_t step) {
  Given& given = given_[step];
  given.to.insert(worker);
  given.since = Clock::now();
  return step;
}

std::optional<std::int64_t> StepList::next(std::size_t worker) {
  if (stopped_) return std::nullopt;
  if (!returned_.empty()) {
    ++again_;
    return give(worker, returned_.extract(returned_.begin()).value());
  }
  if (next_ < steps_) return give(worker, next_++);
  return std::nullopt;
}

std::optional<std::int64_t> StepList::late(std::size_t worker, double least_seconds) {
  constexpr double kMuchLonger = 5;
  if (stopped_) return std::nullopt;
  const double seconds = std::max(least_seconds, done_ > 0 ? kMuchLonger * seconds_ / static_cast<double>(done_) : 0);
  for (auto& [step, given] : given_) {
    const double age = std::chrono::duration<double>(Clock::now() - given.since).count();
    if (age < seconds || given.to.contains(worker)) continue;
    ++again_;
    return give(worker, step);
  }
  return std::nullopt;
}

bool StepList::finish(std::span<const std::int64_t> steps) {
  bool any = false;
  for (const std::int64_t step : steps) {
    if (const auto given = given_.find(step); given != given_.end()) {
      seconds_ += std::chrono::duration<double>(Clock::now() - given->second.since).count();
      given_.erase(given);
    }
    returned_.erase(step);
    if (is_done_.at(static_cast<std::size_t>(step))) continue;
    is_done_[static_cast<std::size_t>(step)] = true;
    ++done_;
    any = true;
  }
  return any;
}

void StepList::lose(std::size_t worker) {
  for (auto given = given_.begin(); given != given_.end();) {
    given->second.to.erase(worker);
    if (!given->second.to.empty()) {
      ++given;
      continue;
    }
    returned_.insert(given->first);
    given = given_.erase(given);
  }
}

}  // namespace rewright::training
