// The time of a schedule with given times of its actions, by the longest path: without the links, which the simulation adds
// (pipeline_step.h).
//
// A step follows the one before without a pause for all: each process goes on with the next step as soon as its own list is
// done. So what counts is the time from step to step, not that of a step alone. Of a schedule of one step that is the largest
// mean of the cycles through the steps (the eigenvalue of the steps in the algebra of maximum and addition), by R. Karp's
// method (1978). It is that of a step alone where one process begins first and ends last, as in GPipe and 1F1B. Schedules
// whose steps overlap list several: it is then the mean time between their ends. A run for inference is alone.
#pragma once

#include <cstddef>
#include <vector>

#include "plans/pipelines/pipeline_schedule.h"

namespace rewright::plans {

// Seconds of a micro-batch in one stage. `backward` is the gradient of the inputs, `weights` that of the weights, which
// schedules with gradients together compute one after the other.
struct StageSeconds {
  double forward = 1, backward = 1, weights = 1, update = 0;
};

struct ScheduleTimes {
  std::vector<StageSeconds> stages;  // empty: all as by default
  double message = 0;                // between two stages that are on different processes
};

struct ScheduleTiming {
  double seconds = 0;                       // from step to step
  double alone = 0;                         // from the first action to the last
  double bubble = 0;                        // share of `seconds` in which a process waits, mean over the processes
  std::vector<double> waiting;              // the share of each
  std::vector<std::vector<double>> starts;  // of each process's actions, when all begin at 0 and nothing is delayed
};

// Times a schedule. Throws Error(kUsage) with its fault if it has one, or for times of other stages.
ScheduleTiming time_schedule(const PipelineSchedule& schedule, const ScheduleTimes& times);

double action_seconds(const PipelineSchedule& schedule, const ScheduleTimes& times, const PipelineAction& action);

}  // namespace rewright::plans
