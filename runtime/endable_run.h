// Ending a run from outside of it: a loop may never end, and a large model takes its time.
#pragma once

#include <atomic>

#include "graph/graph.h"

namespace rewright::runtime {

// While it lives, what the calling thread executes calls `checkpoint` between the steps of plans, between nodes and in loops;
// what it throws ends the run, and the session can be run again. The innermost of several counts.
class EndableRun {
 public:
  explicit EndableRun(const Checkpoint& checkpoint);  // which must outlive it
  ~EndableRun();
  EndableRun(const EndableRun&) = delete;
  EndableRun& operator=(const EndableRun&) = delete;

 private:
  const Checkpoint* outer_;
};

// Calls the checkpoint of the run that the calling thread is in, if it is in one. As SessionOptions::checkpoint it lets each
// run of a session have its own.
void run_checkpoint();

// Throws Error(kCancelled) as soon as `ended` is true. `ended` must outlive it.
Checkpoint ends_when(const std::atomic<bool>& ended);

}  // namespace rewright::runtime
