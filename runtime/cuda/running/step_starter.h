// Starts the steps of a plan on a device.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "runtime/cuda/planning/plan.h"
#include "runtime/cuda/running/plan_memory.h"
#include "runtime/cuda/running/session.h"

namespace rewright::cuda {

// A step runs by this library operation, or by this alternative with these choices for its steps.
struct Choice {
  std::unique_ptr<Operation> operation;
  std::size_t alternative = 0;
  std::vector<Choice> steps;
};

class StepStarter {
 public:
  // Compiles and loads the plan's kernels. Plan and memory must outlive this object.
  StepStarter(std::shared_ptr<Driver> driver, const Plan& plan, const PlanMemory& memory, const CudaOptions& options);

  // Starts a device step. `stream`: the one whose workspace it uses.
  void start(const Step& step, const Choice& choice, std::size_t stream) const;

  // Records the work that a function starts.
  std::unique_ptr<Recording> record(const std::function<void()>& work) const;
  // The device time of the work in seconds: the median of some runs.
  double measure(const std::function<void()>& work, int runs) const;

 private:
  void start_kernel(const Step& step, std::size_t number, std::size_t stream) const;
  void start_operation(const Step& step, Operation& operation, std::size_t stream) const;

  const std::shared_ptr<Driver> driver_;
  const Plan& plan_;
  const PlanMemory& memory_;
  std::unique_ptr<Module> modules_[2];  // kernels in float, and in double
};

}  // namespace rewright::cuda
