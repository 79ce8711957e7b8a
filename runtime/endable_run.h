// Ends runs from outside: a loop may never end, and a large model may take long.
#pragma once

#include <atomic>
#include <chrono>
#include <stop_token>

#include "graph/graph.h"

namespace rewright::runtime {

// While it exists, runs of the calling thread call `checkpoint` between steps of plans, between nodes and in loops. If that
// throws, the run ends with the exception, and the session can run again. The innermost of nested ones counts.
class EndableRun {
 public:
  explicit EndableRun(const Checkpoint& checkpoint);  // must outlive it
  ~EndableRun();
  EndableRun(const EndableRun&) = delete;
  EndableRun& operator=(const EndableRun&) = delete;

 private:
  const Checkpoint* outer_;
};

// Calls the calling thread's checkpoint, if any. As SessionOptions::checkpoint it gives each run of a session its own.
void run_checkpoint();

// A checkpoint that throws Error(kCancelled) once `ended` is true. `ended` must outlive it.
Checkpoint ends_when(const std::atomic<bool>& ended);

constexpr double kLongestRun = 30;  // seconds in which runs that are only measured end: a model may contain an endless loop
// A checkpoint that throws Error(kCancelled) once `cancel` stops or `end` is past, and Error(kUnsupported) so many seconds from
// now.
Checkpoint ends_after(double seconds, std::chrono::steady_clock::time_point end, std::stop_token cancel);

}  // namespace rewright::runtime
