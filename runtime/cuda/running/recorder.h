// Records runs of a plan.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "runtime/cuda/running/step_starter.h"

namespace rewright::cuda {

// A part of a run; parts start in order. Either recorded work, or a step that the host executes, or an announcement that all
// work for a group of outputs has been started.
struct HostPart {
  std::size_t step;
};
struct Announcement {
  std::size_t group;
};
using RunPart = std::variant<std::unique_ptr<Recording>, HostPart, Announcement>;

class Recorder {
 public:
  // One choice for each step of the plan. All arguments must outlive this object.
  Recorder(std::shared_ptr<Driver> driver, const Plan& plan, PlanMemory& memory, const StepStarter& starter,
           const std::vector<Choice>& choices)
      : driver_(std::move(driver)), plan_(plan), memory_(memory), starter_(starter), choices_(choices) {}

  // From now on, steps run in the plan's streams as CudaOptions::in_streams says; if that is unset, if it is measured to be
  // faster.
  void choose_streams(const CudaOptions& options);

  // Starts all steps, in streams or not. The host must execute none.
  void start_steps() { start_steps(0, plan_.steps.size()); }
  void start(std::size_t step) const;

  // Records a run, with or without the copies of inputs to the device and outputs from it.
  std::vector<RunPart> record(bool with_copies);
  void start_inputs(bool with_copies);
  void start_outputs(bool with_copies);

 private:
  void start_steps(std::size_t begin, std::size_t end);
  void start_in_streams(std::size_t begin, std::size_t end);
  std::size_t end_of_stretch(std::size_t begin) const;
  void start_stretch(std::size_t begin, std::size_t end, bool with_copies);

  const std::shared_ptr<Driver> driver_;
  const Plan& plan_;
  PlanMemory& memory_;
  const StepStarter& starter_;
  const std::vector<Choice>& choices_;
  bool in_streams_ = false;
};

}  // namespace rewright::cuda
