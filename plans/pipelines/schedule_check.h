// Whether a schedule can be executed, and what its steps compute.
//
// A schedule is complete if each micro-batch passes each stage forwards and backwards once, each on one process, and every
// gradient enters an update. It is free of deadlocks if some process can always go on: messages are sent without waiting for
// their receivers, so what counts is the order of each process and what an action needs: F of the stage before, B of the stage
// behind and F of its own, W of its B. Processes that have the same stage (two directions) add their gradients for an update,
// which therefore waits for the backward passes of all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "plans/pipelines/pipeline_schedule.h"

namespace rewright::plans {

enum class ScheduleFault {
  kNone,
  kRange,      // an action of a stage, a micro-batch or a kind that the schedule does not have
  kTwice,      // an action that stands in the lists twice
  kMissing,    // one that stands in none
  kElsewhere,  // a backward pass on another process than its forward pass, whose activations it needs
  kOrder,      // an action before another one of the same process that it needs
  kVersion,    // weights that are not there yet, or a backward pass with others than its forward pass
  kUpdate,     // a gradient that enters no update, or an update without one
  kDeadlock,   // processes that wait for each other
  kMemory,     // more than the limits allow
};

struct ScheduleLimits {
  // The most pairs of a stage and a micro-batch whose activations a process may hold at the same time.
  std::size_t activations = std::numeric_limits<std::size_t>::max();
  // The most versions of a stage's weights at the same time.
  std::size_t versions = std::numeric_limits<std::size_t>::max();
};

// An action by its process and its place in the list.
struct ActionPlace {
  std::uint32_t process = 0, index = 0;
  friend bool operator==(const ActionPlace&, const ActionPlace&) = default;
};

struct ScheduleCheck {
  ScheduleFault fault = ScheduleFault::kNone;
  std::string reason;              // one line; empty without a fault
  std::vector<ActionPlace> order;  // all actions, each behind what it needs; without a fault
};
ScheduleCheck check_schedule(const PipelineSchedule& schedule, const ScheduleLimits& limits = {});

// Why a step computes something else than one process that updates its weights after each batch: stale weights, or an update
// in the midst of a batch. Empty where it computes the same. For schedules without a fault.
std::string why_asynchronous(const PipelineSchedule& schedule);

// For schedules without a fault, by process: the most pairs of a stage and a micro-batch whose activations are held at the same
// time, from F until B, or W where gradients are apart.
std::vector<std::size_t> most_activations(const PipelineSchedule& schedule);
// By process: the most versions of a stage's weights, summed over its stages. The newest one is always there.
std::vector<std::size_t> most_versions(const PipelineSchedule& schedule);

// The actions that an action needs, by number in a schedule without a fault, other than those before it in its process's list.
class ActionNeeds {
 public:
  explicit ActionNeeds(const PipelineSchedule& schedule);
  void each(ActionPlace at, std::vector<ActionPlace>& needs) const;  // appends them

 private:
  const ActionPlace* find(ActionKind kind, std::size_t stage, std::size_t micro_batch) const;
  const PipelineSchedule& schedule_;
  std::vector<ActionPlace> places_;  // by kind, stage and micro-batch; the process of one that is missing is kNoProcess
  // By stage: of each of its updates, on all processes, the last backward pass before it.
  std::vector<std::vector<std::vector<ActionPlace>>> before_update_;
  std::vector<std::vector<std::uint32_t>> update_number_;  // by process and index
};

}  // namespace rewright::plans
