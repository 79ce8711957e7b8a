// A step of training, and the tensors that it changes. There are three kinds, and step_maker.h chooses one:
//
//   whole_step.h     one shard in one process: gradients and update are a single graph
//   parallel_step.h  several shards, in one process or several: gradients are added up, then parameters are updated
//   device_step.h    the tensors stay in a device's memory, with one shard or several
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "expressions/tensor.h"
#include "runtime/session.h"

namespace rewright::training {

// The tensors that training changes, in the order of TrainingGraphs. States: all of the first kind, then all of the second.
struct TrainedTensors {
  std::vector<Tensor> parameters, statistics, states;
};

// The most bytes that a process has held at once.
struct TrainingMemory {
  std::size_t parameters, gradients, states;
};

// All functions are called by all processes in the same order.
class TrainingStep {
 public:
  virtual ~TrainingStep() = default;

  // Takes one step and returns the loss, its mean over the shards of all processes. `shards` belong to this process, and each
  // lists the inputs of TrainingGraphs::gradients in front of the parameters; `schedule` holds the learning rate and the number
  // of the step, from 1, as float scalars. If the loss, a gradient or a statistic is not finite, or `bad` is set, in any
  // process, nothing changes and the result is NaN.
  virtual double advance(const std::vector<std::vector<Tensor>>& shards, const std::vector<Tensor>& schedule, bool bad) = 0;

  // Copies of all tensors, whole in every process. They keep their contents while training goes on.
  virtual TrainedTensors gather() = 0;
  // Replaces all tensors, of which every process is given the whole.
  virtual void load(const TrainedTensors& tensors) = 0;

  // Hashes of the tensors that every process holds a copy of: parameters, unless each process holds a part, then statistics.
  virtual std::vector<std::uint64_t> copies() const { return {}; }
  // The sums over all shards that the last step computed (the last inputs of TrainingGraphs::gradients).
  virtual std::vector<Tensor> sums() const { return {}; }

  // Nothing where a step is a single graph on the host.
  virtual std::optional<TrainingMemory> memory() const { return std::nullopt; }
  virtual std::size_t peak_bytes() const = 0;            // of the intermediate values of the forward and backward pass
  virtual std::vector<StepProfile> profile() const = 0;  // of all graphs of a step, if their sessions are profiled
};

}  // namespace rewright::training
