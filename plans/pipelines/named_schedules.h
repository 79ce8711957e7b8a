// The schedules of the literature, by name. With equal stages of forward time f, backward time b (of which w for weights where
// gradients are apart), p processes and m micro-batches, the share of a step in which a process waits, and the most activations
// that it holds, in those of a stage and micro-batch (of interleaved 1F1B and ZB-V: of a p-th of the model):
//
//   name            paper                                                 waits                         activations
//   gpipe           Huang et al., 2019 (arXiv 1811.06965)                 (p-1) / (m+p-1)               m
//   1f1b            Narayanan et al., SOSP 2019; Fan et al., PPoPP 2021   (p-1) / (m+p-1)               min(p, m)
//   interleaved     Narayanan et al., SC 2021 (2104.04473), v chunks      (p-1) / (v m+p-1)             p (1 + (p-1) / (p v))
//   pipedream       Narayanan et al., SOSP 2019; p versions of weights    0, steps overlap              min(p, m)
//   pipedream-2bw   Narayanan et al., ICML 2021 (2006.09503); 2 versions  0, steps overlap              min(p, m)
//   chimera         Li and Hoefler, SC 2021 (2107.06925), f = b           (p-2) / (2m+p-2)              p/2 + 1 to p
//   zb-h1           Qi et al., ICLR 2024 (2401.10241), f = b-w = w        (p-1) / (3m+p-1)              p
//   zb-v            Qi et al., 2024 (2405.15362), f = b-w = w             0 where m >= 2p-1             p
//
// Chimera's holds where p divides m; its weights lie on two processes. ZB-H1's holds where m >= p: a third of 1F1B's time. ZB-V
// with fewer micro-batches waits 2 (2p-1-m) of 6m + 2 (2p-1-m). What a step is: schedule_timing.h.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plans/pipelines/pipeline_schedule.h"

namespace rewright::plans {

struct ScheduleSize {
  std::size_t processes = 1, micro_batches = 1;
  std::size_t chunks = 2;  // of a process, in interleaved 1F1B
  std::size_t steps = 3;   // that schedules list whose steps overlap: the first one, and some of the steady state
};

const std::vector<std::string>& schedule_names();

// Throws Error(kUsage) in one line: there is no such schedule, or none of this size.
PipelineSchedule named_schedule(const std::string& name, const ScheduleSize& size);

// The reason why a named schedule cannot have this size, or that there is none of this name; empty if it can.
std::string why_no_schedule(const std::string& name, const ScheduleSize& size);

}  // namespace rewright::plans
