// Conditions under which a search ends.
#pragma once

#include <chrono>
#include <cstddef>
#include <stop_token>
#include <string_view>

namespace rewright::optimizer {

// Why a search ended. kDone: its strategy has nothing left to try; kSaturated: no rule adds anything.
enum class StopReason { kDone, kSaturated, kNodes, kTime, kMemory, kCancelled };
std::string_view name(StopReason reason);  // "done", "saturated", "nodes", "time", "memory", "cancelled"

// Time, memory and cancellation. Cheap to ask; once reached, it stays so.
class Limits {
 public:
  Limits(std::chrono::steady_clock::time_point deadline, std::size_t memory, std::stop_token cancel)
      : deadline_(deadline), memory_(memory), cancel_(std::move(cancel)) {}
  bool reached();
  // Ends this search as well, if a part ended for a reason that applies to the whole: memory or cancellation.
  void take(StopReason reason_of_part);
  StopReason reason() const { return reason_; }  // kDone as long as none is reached
  std::chrono::steady_clock::time_point deadline() const { return deadline_; }

 private:
  std::chrono::steady_clock::time_point deadline_;
  std::size_t memory_;  // bytes of the process
  std::stop_token cancel_;
  StopReason reason_ = StopReason::kDone;
  std::size_t asked_ = 0;
};

}  // namespace rewright::optimizer
