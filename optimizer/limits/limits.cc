#include "optimizer/limits/limits.h"

#include "base/process_memory.h"

namespace rewright::optimizer {

bool Limits::reached() {
  if (reason_ != StopReason::kDone) return true;
  if (cancel_.stop_requested())
    reason_ = StopReason::kCancelled;
  else if (std::chrono::steady_clock::now() >= deadline_)
    reason_ = StopReason::kTime;
  else if (++asked_ % 32 == 1 && resident_bytes() > memory_)
    reason_ = StopReason::kMemory;
  return reason_ != StopReason::kDone;
}

void Limits::take(StopReason reason_of_part) {
  if (reason_ == StopReason::kDone && (reason_of_part == StopReason::kMemory || reason_of_part == StopReason::kCancelled))
    reason_ = reason_of_part;
}

std::string_view name(StopReason reason) {
  switch (reason) {
    case StopReason::kDone:
      return "done";
    case StopReason::kSaturated:
      return "saturated";
    case StopReason::kNodes:
      return "nodes";
    case StopReason::kTime:
      return "time";
    case StopReason::kMemory:
      return "memory";
    case StopReason::kCancelled:
      return "cancelled";
  }
  return "done";
}

}  // namespace rewright::optimizer
