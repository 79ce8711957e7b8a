// A training step and the tensors that it changes. There are three kinds; step_maker.h chooses one:
//
//   whole_step.h     one shard in one process: gradients and update are a single graph
//   parallel_step.h  several shards, in one process or several: gradients are summed, then parameters are updated
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

// Peak bytes that a process has held.
struct TrainingMemory {
  std::size_t parameters, gradients, states;
};

// All processes call all functions in the same order.
class TrainingStep {
 public:
  virtual ~TrainingStep() = default;

  // Takes one step and returns the mean loss over the shards of all processes. `shards` belong to this process; each lists the
  // inputs of TrainingGraphs::gradients before the parameters. `schedule`: the learning rate and the step's number (from 1), as
  // float scalars. If in any process the loss, a gradient or a statistic is not finite, or `bad` is set, nothing changes and
  // the result is NaN.
  virtual double advance(const std::vector<std::vector<Tensor>>& shards, const std::vector<Tensor>& schedule, bool bad) = 0;

  // Copies of all tensors, whole in every process. Later steps do not change them.
  virtual TrainedTensors gather() = 0;
  // As above for the first process alone: the others may get empty tensors, and nobody gets states unless `with_states`.
  virtual TrainedTensors gather_in_first(bool /*with_states*/) { return gather(); }
  // Replaces all tensors. Every process passes the whole tensors.
  virtual void load(const TrainedTensors& tensors) = 0;

  // Hashes of the tensors that every process holds: parameters unless partitioned, then statistics.
  virtual std::vector<std::uint64_t> copies() const { return {}; }
  // The sums over all shards computed by the last step (the last inputs of TrainingGraphs::gradients).
  virtual std::vector<Tensor> sums() const { return {}; }

  // nullopt if a step is a single graph on the host.
  virtual std::optional<TrainingMemory> memory() const { return std::nullopt; }
  virtual std::size_t peak_bytes() const = 0;            // of intermediate values of the forward and backward pass
  virtual std::vector<StepProfile> profile() const = 0;  // of all graphs of a step, if profiling is on
};

}  // namespace rewright::training
