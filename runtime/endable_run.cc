#include "runtime/endable_run.h"

#include <string>
#include <utility>

#include "base/error.h"

namespace rewright::runtime {

namespace {

// Thread-local, so that it reaches through libraries and callbacks that do not know it.
thread_local const Checkpoint* current = nullptr;

}  // namespace

EndableRun::EndableRun(const Checkpoint& checkpoint) : outer_(current) { current = &checkpoint; }
EndableRun::~EndableRun() { current = outer_; }

void run_checkpoint() {
  if (current != nullptr && *current) (*current)();
}

Checkpoint ends_when(const std::atomic<bool>& ended) {
  return [&ended] {
    if (ended.load(std::memory_order_relaxed)) throw Error(ErrorCode::kCancelled, "the run was ended");
  };
}

Checkpoint ends_after(double seconds, std::chrono::steady_clock::time_point end, std::stop_token cancel) {
  using Clock = std::chrono::steady_clock;
  return [start = Clock::now(), seconds, end, cancel = std::move(cancel)] {
    if (cancel.stop_requested()) throw Error(ErrorCode::kCancelled, "measuring was stopped");
    if (Clock::now() > end) throw Error(ErrorCode::kCancelled, "the time for it is over");
    if (std::chrono::duration<double>(Clock::now() - start).count() > seconds)
      throw Error(ErrorCode::kUnsupported, "was given up after " + std::to_string(static_cast<int>(seconds)) + " s of running");
  };
}

}  // namespace rewright::runtime
