// Schedules of pipelines as data: what each process of a pipeline does, in which order. A model is divided into stages, a
// batch into micro-batches; a process has one stage or several.
//
//   const PipelineSchedule schedule = named_schedule("1f1b", {.processes = 4, .micro_batches = 8});  // named_schedules.h
//   const std::string text = write_schedule(schedule);
//   const ScheduleCheck check = check_schedule(read_schedule(text, "a file"));                        // schedule_check.h
//   const ScheduleTiming timing = time_schedule(schedule, {});                                        // schedule_timing.h
//
// The text has one line a process:
//
//   rewright pipeline 1
//   name 1f1b
//   stages 2
//   micro-batches 3
//   gradients together
//   process 0: F0.0 F0.1 B0.0 F0.2 B0.1 B0.2 U0
//   process 1: F1.0 B1.0 F1.1 B1.1 F1.2 B1.2 U1
//
// F1.2 is the forward pass of micro-batch 2 through stage 1, B1.2 its backward pass, U1 the update of the stage's weights. With
// "gradients apart" B computes the gradient of the stage's inputs alone, and W1.2 that of its weights; "gradients none" is
// inference. F1.2@3 reads the weights as they are after 3 updates (nothing: 0). "steps 2" says that the lists hold two steps,
// whose micro-batches are numbered on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/namespaces.h"

namespace rewright::plans {

enum class ActionKind : std::uint8_t { kForward, kBackward, kWeights, kUpdate };
enum class GradientActions : std::uint8_t { kNone, kTogether, kApart };

struct PipelineAction {
  ActionKind kind = ActionKind::kForward;
  std::uint32_t stage = 0;
  std::uint32_t micro_batch = 0;  // of an update 0
  std::uint32_t version = 0;      // of the weights that it reads: how many updates they have had; of an update 0
  friend bool operator==(const PipelineAction&, const PipelineAction&) = default;
};
std::string to_string(const PipelineAction& action);

struct PipelineSchedule {
  std::string name;
  std::size_t stages = 0;
  std::size_t micro_batches = 0;  // of a step
  std::size_t steps = 1;
  GradientActions gradients = GradientActions::kTogether;
  std::vector<std::vector<PipelineAction>> processes;

  std::size_t all_micro_batches() const { return micro_batches * steps; }
  std::size_t actions() const;
  friend bool operator==(const PipelineSchedule&, const PipelineSchedule&) = default;
};

// The schedule with its forward passes alone: the same stages on the same processes.
PipelineSchedule for_inference(PipelineSchedule schedule);
// Gradients of weights as actions of their own, each right behind that of the inputs.
PipelineSchedule with_gradients_apart(const PipelineSchedule& schedule);
// The actions of a schedule of several steps that the first step's micro-batches need, as if no other step came.
PipelineSchedule first_step(const PipelineSchedule& schedule);
// Several steps of a synchronous schedule, one behind the other in each process's list.
PipelineSchedule repeated(const PipelineSchedule& schedule, std::size_t steps);

std::string write_schedule(const PipelineSchedule& schedule);
// Throws Error(kBadInput) with the line: no schedule, unknown actions, numbers that are out of range or too large. Whether it
// is complete and can be executed is check_schedule()'s question.
PipelineSchedule read_schedule(std::string_view text, const std::string& name);

}  // namespace rewright::plans
