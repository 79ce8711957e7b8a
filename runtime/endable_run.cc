#include "runtime/endable_run.h"

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

}  // namespace rewright::runtime
