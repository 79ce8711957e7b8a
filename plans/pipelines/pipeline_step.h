// A pipeline's step in time, on a machine: what each stage computes and holds, as the tasks of a simulation.
#pragma once

#include <cstddef>

#include "plans/pipelines/stage_work.h"
#include "plans/simulation/simulation.h"

namespace rewright::plans {

struct PipelineTimes {
  double seconds = 0;     // from step to step, as in schedule_timing.h; of inference a run
  double bubble = 0;      // share of it in which a process does not compute, mean over the processes
  std::size_t steps = 1;  // that were simulated
};
// `alone`: one step, which begins when the one before is done in all processes.
// Puts a step into the simulation and runs it, or several where steps follow each other. Process p is device p. Messages are
// sent as soon as what they hold is computed, beside what their sender goes on with.
PipelineTimes simulate_pipeline(Simulation& simulation, const Pipeline& pipeline, const GroupGraph& group,
                                const MicroBatchRoles& roles, const OperatorSeconds& seconds, bool alone = false);

}  // namespace rewright::plans
