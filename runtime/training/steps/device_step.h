// A step on a device that keeps weights and optimizer states in its memory: only batches are copied in, and the loss out.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "distribution/communicator.h"
#include "distribution/device_sums.h"
#include "runtime/resident.h"
#include "runtime/training/graphs/training_graph.h"
#include "runtime/training/steps/exchange_options.h"
#include "runtime/training/steps/training_step.h"

namespace rewright::training {

struct DeviceStepOptions {
  SessionOptions session = {};
  std::int64_t shards = 1;  // of all processes together
  // Sums gradients in device memory. Null: ExchangeOptions determines how they are summed in host memory.
  DeviceSums* sums = nullptr;
  // Return a faster equivalent of the forward and backward pass, or of the update.
  std::function<Graph(const Graph&)> rewritten, rewritten_update;
};

// `processes` and `backend` must outlive the step.
std::unique_ptr<TrainingStep> make_device_step(const TrainingGraphs& graphs, const TrainingGraphOptions& training,
                                               const ExchangeOptions& exchange, Communicator& processes,
                                               const ResidentBackend& backend, const DeviceStepOptions& options,
                                               const TrainedTensors& start);

}  // namespace rewright::training
