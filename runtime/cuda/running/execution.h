// A plan on a device, prepared to run repeatedly.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cuda/running/chooser.h"
#include "runtime/cuda/running/plan_memory.h"
#include "runtime/cuda/running/recorder.h"
#include "runtime/cuda/running/session.h"
#include "runtime/cuda/running/step_starter.h"
#include "runtime/device_tensor.h"

namespace rewright::cuda {

// Tensors that stay on the device between runs.
struct Residents {
  Places places;
  std::vector<std::byte*> memory;  // by place
  // Called when the work that computes and reads a group of outputs has been started; it need not be done yet.
  std::function<void(std::size_t group)> announce;
};

class Execution {
 public:
  // Chooses by measuring, which overwrites resident tensors.
  Execution(std::shared_ptr<Driver> driver, Plan plan, ConstantStore& constants, const CudaOptions& options,
            Residents residents = {});
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  const Plan& plan() const { return plan_; }

  // ---- Running
  // Resident inputs are ignored; resident outputs are returned empty.
  std::vector<Tensor> run(std::span<const Tensor> inputs);
  // Runs with inputs and outputs anywhere: see DeviceSession::run_placed. Fills `results`, which has an empty tensor for each
  // output; if it throws, the caller frees those already filled.
  void run_placed(std::span<const PlacedTensor> inputs, std::span<const Destination> outputs, std::span<PlacedTensor> results);
  // Runs step by step and calls `observe` with each step's number after it; it may read buffers (read_back).
  std::vector<Tensor> run_observed(std::span<const Tensor> inputs, const std::function<void(std::size_t step)>& observe);
  std::vector<std::byte> read_back(int buffer);

  // ---- Reports (execution_reports.cc)
  // The origin of a step's kernel, with the library's own name for it; and the bound on its rounding error, relative to plain
  // sums.
  std::string source(std::size_t step) const;
  double rounding(std::size_t step) const;
  // Seconds on the device: for the whole plan, without copying inputs and outputs; and for all steps in sequence, without
  // layout conversions. Throw Error(kUnsupported) if the host executes a node.
  double measure(int runs);
  double measure_work(int runs);
  // Times each step by itself on its buffers' present contents; `runs` were made. Host steps take no time on the device.
  std::vector<StepProfile> profile(int runs);

 private:
  // Buffers of inputs and outputs, and their addresses in the caller's memory.
  using DirectMemory = std::vector<std::pair<int, std::byte*>>;
  struct Direct {
    DirectMemory memory;
    std::vector<RunPart> parts;  // empty: seen once
  };
  class Redirected;

  void run(const std::vector<RunPart>& parts);
  DirectMemory direct_memory(std::span<const PlacedTensor> inputs, std::span<const Destination> outputs) const;
  // A recording that uses this memory; null: copy.
  const std::vector<RunPart>* direct_parts(const DirectMemory& direct);
  void run_on_host(std::size_t step);
  void require_device() const;
  double measure_step(std::size_t step);

  // In order of construction: later ones use earlier ones.
  const std::shared_ptr<Driver> driver_;
  const Plan plan_;
  const Precision precision_;
  const std::function<void(std::size_t group)> announce_;
  PlanMemory memory_;
  const StepStarter starter_;
  const std::vector<Choice> choices_;  // by step
  Recorder recorder_;
  std::vector<RunPart> parts_;
  std::vector<RunPart> placed_parts_;  // for run_placed() with copies, recorded when first needed
  std::vector<Direct> direct_;         // the one used last is the last
};

}  // namespace rewright::cuda
