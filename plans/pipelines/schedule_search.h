// The best synchronous schedule of a small pipeline, by integer program: in which order each process does its actions, so that
// the time from step to step is shortest.
//
// Micro-batches that take the same way are alike, so they pass in their order. What is left to choose is, for each two actions
// of a process, which is first (A. Manne's program for job shops, 1960). Gradients of weights are actions of their own, as in
// the programs of Qi et al. (arXiv 2401.10241). A step takes as long as the longest time between the beginning of a process's
// first action and the end of its last: processes may follow each other so step by step, and cannot sooner.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plans/pipelines/schedule_check.h"
#include "plans/pipelines/schedule_timing.h"

namespace rewright::plans {

struct ScheduleSearch {
  std::size_t processes = 1, micro_batches = 1;
  // Seconds of equal stages, one a process; schedules with more have parts of them. Updates take no time here.
  StageSeconds stage;
  double message = 0;
  double activations = 0;        // that a process may hold, in those of a stage and micro-batch; 0: as many as processes
  bool two_copies = true;        // may weights lie on two processes, as Chimera's do?
  std::size_t most_pairs = 400;  // of actions whose order is chosen: larger programs are not tried
  double seconds = 30;           // for all programs
  std::int64_t nodes = 20000;    // of branch and bound, each
};

struct FoundSchedule {
  PipelineSchedule schedule;
  double seconds = 0;        // from step to step
  double bound = 0;          // none of the stages' places that were tried takes less; 0: not known
  bool proved_best = false;  // the bound is reached
  std::string best_named;    // the best of the literature's
  double named_seconds = 0;  // that it takes
};

// At least as good as all named schedules that compute what one process computes and hold no more activations. Throws
// Error(kUsage) if none does.
FoundSchedule search_schedule(const ScheduleSearch& search);

}  // namespace rewright::plans
