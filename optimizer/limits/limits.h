// When a search has to end.
#pragma once

#include <chrono>
#include <cstddef>
#include <stop_token>
#include <string_view>

namespace rewright::optimizer {

// Why a search ended. kDone: nothing was left that its strategy would have tried; kSaturated: no rule adds anything.
enum class StopReason { kDone, kSaturated, kNodes, kTime, kMemory, kCancelled };
std::string_view name(StopReason reason);  // "done", "saturated", "nodes", "time", "memory", "cancelled"

// Time, memory and the caller's wish. Asked often; once reached, it stays so.
class Limits {
 public:
  Limits(std::chrono::steady_clock::time_point deadline, std::size_t memory, std::stop_token cancel)
      : deadline_(deadline), memory_(memory), cancel_(std::move(cancel)) {}
  bool reached();
  // Ends here, too, if a part of the search ended for a reason that holds for the whole: memory, or the caller's wish.
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
