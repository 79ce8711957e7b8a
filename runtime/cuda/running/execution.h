// A plan on a device, ready to run again and again.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/cuda/running/chooser.h"
#include "runtime/cuda/running/plan_memory.h"
#include "runtime/cuda/running/recorder.h"
#include "runtime/cuda/running/session.h"
#include "runtime/cuda/running/step_starter.h"
#include "runtime/device_tensor.h"

namespace rewright::cuda {

// Tensors that stay on the device from run to run.
struct Residents {
  Places places;
  std::vector<std::byte*> memory;  // by place
  // Called as soon as the work is started that computes and reads a group of outputs; it is not done then.
  std::function<void(std::size_t group)> announce;
};

class Execution {
 public:
  // Chooses and measures, which overwrites what stays on the device.
  Execution(std::shared_ptr<Driver> driver, Plan plan, ConstantStore& constants, const CudaOptions& options,
            Residents residents = {});
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  const Plan& plan() const { return plan_; }

  // ---- Running
  // Inputs that stay on the device are ignored, and outputs that do are empty.
  std::vector<Tensor> run(std::span<const Tensor> inputs);
  // The same with inputs that lie anywhere, and outputs that go anywhere: see DeviceSession::run_placed. Fills `results`, which
  // has an empty tensor for each output; where it throws, the caller frees what it has filled.
  void run_placed(std::span<const PlacedTensor> inputs, std::span<const Destination> outputs, std::span<PlacedTensor> results);
  // Runs step by step and calls `observe` after each step, with its number: it may read the buffers (read_back).
  std::vector<Tensor> run_observed(std::span<const Tensor> inputs, const std::function<void(std::size_t step)>& observe);
  std::vector<std::byte> read_back(int buffer);

  // ---- Reports (execution_reports.cc)
  // Whose kernel a step runs, with the library's own name for it; and the bound on its rounding error, in multiples of that of
  // plain sums.
  std::string source(std::size_t step) const;
  double rounding(std::size_t step) const;
  // Seconds on the device for the whole plan between the copies of inputs and outputs; and for all of its steps one after the
  // other but for changes of layout. Throw Error(kUnsupported) where the host executes a node.
  double measure(int runs);
  double measure_work(int runs);
  // Each step measured by itself, on whatever its buffers hold; `runs` were made. Steps of the host take no time on the device.
  std::vector<StepProfile> profile(int runs);

 private:
  void run(const std::vector<RunPart>& parts);
  void run_on_host(std::size_t step);
  void require_device() const;
  double measure_step(std::size_t step);

  // In the order in which they are made of each other.
  const std::shared_ptr<Driver> driver_;
  const Plan plan_;
  const Precision precision_;
  const std::function<void(std::size_t group)> announce_;
  PlanMemory memory_;
  const StepStarter starter_;
  const std::vector<Choice> choices_;  // by step
  Recorder recorder_;
  std::vector<RunPart> parts_;
  std::vector<RunPart> placed_parts_;  // of run_placed(); recorded when they are needed for the first time
};

}  // namespace rewright::cuda
