// A step of training on a device that keeps weights and the optimizer's states in its memory: batches go in, and the loss comes
// out.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "distribution/device_sums.h"
#include "runtime/resident.h"
#include "runtime/training/graphs/training_graph.h"
#include "runtime/training/steps/parallel_step.h"

namespace rewright::training {

struct DeviceStepOptions {
  SessionOptions session = {};
  std::int64_t shards = 1;  // of all processes together
  // What adds up gradients in the devices' memory; null: `exchange`, in the memory of the hosts.
  DeviceSums* sums = nullptr;
  // A graph that computes the same, of the forward and backward pass, and of updates.
  std::function<Graph(const Graph&)> rewritten, rewritten_update;
};

class DeviceStep {
 public:
  DeviceStep(const TrainingGraphs& graphs, const TrainingOptions& training, const ExchangeOptions& exchange,
             Communicator& processes, const ResidentBackend& backend, const DeviceStepOptions& options,
             const TrainedTensors& start);
  ~DeviceStep();

  // One step on the shards of this process, as ParallelStep::advance.
  double advance(const std::vector<std::vector<Tensor>>& shards, const std::vector<Tensor>& schedule, bool bad);

  // What the device holds, the same in every process.
  TrainedTensors gather() const;
  void load(const TrainedTensors& tensors);

  std::vector<std::uint64_t> copies() const;  // hashes of the parameters, then of the statistics
  TrainingMemory memory() const;
  std::vector<StepProfile> profile() const;
  std::size_t peak_bytes() const;  // of the forward and backward pass

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rewright::training
