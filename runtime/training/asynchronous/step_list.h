// Gives steps to workers: each to one, and again to another one if that is lost or late.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

namespace rewright::training {

class StepList {
 public:
  explicit StepList(std::int64_t steps) : steps_(steps), is_done_(static_cast<std::size_t>(steps)) {}

  // A step for this worker: one that a lost worker had, else the next. Empty: all are done, or others have the rest.
  std::optional<std::int64_t> next(std::size_t worker);
  // A step that another worker has had for at least these seconds, and much longer than steps take, which this one is to
  // compute too: whoever is first counts.
  std::optional<std::int64_t> late(std::size_t worker, double least_seconds = 0.5);
  // The results of these count now. Returns whether any of them had not come before.
  bool finish(std::span<const std::int64_t> steps);
  // Its steps are given to others.
  void lose(std::size_t worker);
  void stop() { stopped_ = true; }  // gives out no more

  bool complete() const { return done_ == steps_; }
  bool over() const { return stopped_ || complete(); }
  std::int64_t done() const { return done_; }
  std::int64_t again() const { return again_; }  // steps given a second time

 private:
  using Clock = std::chrono::steady_clock;
  struct Given {
    std::set<std::size_t> to;
    Clock::time_point since;
  };
  std::optional<std::int64_t> give(std::size_t worker, std::int64_t step);

  std::int64_t steps_, next_ = 0, done_ = 0, again_ = 0;
  std::vector<bool> is_done_;
  std::map<std::int64_t, Given> given_;
  std::set<std::int64_t> returned_;
  double seconds_ = 0;  // that the steps which are done took
  bool stopped_ = false;
};

}  // namespace rewright::training
