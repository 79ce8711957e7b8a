// Ends runs from outside, as a loop may never end, and a large model may take long.
#pragma once

#include <atomic>

#include "graph/graph.h"

namespace rewright::runtime {

// While it lives, runs of the calling thread call `checkpoint` between the steps of plans, between nodes and in loops. If that
// throws, the run ends with the exception, and the session can be run again. Of several nested ones the innermost counts.
class EndableRun {
 public:
  explicit EndableRun(const Checkpoint& checkpoint);  // which must outlive it
  ~EndableRun();
  EndableRun(const EndableRun&) = delete;
  EndableRun& operator=(const EndableRun&) = delete;

 private:
  const Checkpoint* outer_;
};

// Calls the calling thread's checkpoint, if it has one. Used as SessionOptions::checkpoint, it gives each run of a session its
// own.
void run_checkpoint();

// Throws Error(kCancelled) as soon as `ended` is true. `ended` must outlive it.
Checkpoint ends_when(const std::atomic<bool>& ended);

}  // namespace rewright::runtime
