// The wall-clock time of an optimization, shared by everything it does.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>

namespace rewright::optimizer {

// Begins with the command, so that reading the model counts too.
class Budget {
 public:
  using Clock = std::chrono::steady_clock;
  using Now = std::function<Clock::time_point()>;  // none: the clock

  Budget(Clock::time_point start, double seconds, Now now = {})
      : seconds_(std::max(0.0, seconds)), end_(start + duration(seconds_)), now_(std::move(now)) {}

  static Clock::duration duration(double seconds) {
    // Beyond the clock's range there is no limit.
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::min(seconds, 1e9)));
  }

  double seconds() const { return seconds_; }
  Clock::time_point end() const { return end_; }
  Clock::time_point now() const { return now_ ? now_() : Clock::now(); }
  double left() const { return std::chrono::duration<double>(end_ - now()).count(); }  // negative: overdrawn
  bool over() const { return left() <= 0; }
  // The point this many seconds before the end, but not before now.
  Clock::time_point before_end(double seconds) const { return std::max(now(), end_ - duration(std::max(0.0, seconds))); }
  // The point this many seconds from now, but not after the end.
  Clock::time_point within(double seconds) const { return std::min(end_, now() + duration(std::max(0.0, seconds))); }

 private:
  double seconds_;
  Clock::time_point end_;
  Now now_;
};

}  // namespace rewright::optimizer
