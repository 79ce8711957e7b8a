// The data of a run: division of batches into shards, and the inputs of each step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "distribution/communicator.h"
#include "graph/graph.h"
#include "runtime/training/data/batches.h"
#include "runtime/training/data/dataset.h"
#include "runtime/training/graphs/training_graph.h"
#include "runtime/training/steps/train_options.h"

namespace rewright::training {

// This process's inputs of a step.
struct StepInputs {
  std::vector<std::vector<Tensor>> shards;  // as TrainingStep::advance expects them
  std::string complaint;                    // the place of a number that is not finite; empty: none
};

// Every batch is divided into equal shards, and every process gets equally many, in the order of ranks.
class RunData {
 public:
  // `data` and `options` must outlive this object. Throws Error(kUsage) if the batch or its shards cannot be divided evenly,
  // and Error(kBadInput) if the data has less than one batch.
  RunData(const Graph& model, const Dataset& data, const TrainOptions& options, const Communicator& processes);

  std::int64_t examples() const { return data_.size(); }
  std::int64_t shards() const { return shards_; }   // of a batch, in all processes together
  std::int64_t rows() const { return part_.rows; }  // examples of a shard
  std::int64_t steps() const { return steps_; }     // of all epochs
  std::int64_t epoch_of(std::int64_t step) const { return step / steps_per_epoch_; }

  // The model with its sizes for the examples of one shard.
  Graph sized(const Graph& model) const;
  // Throws Error(kBadInput) if the targets do not fit the loss: another type, or classes that the predictions lack. `sized`: as
  // above; `gradients`: its graph of gradients.
  void check_targets(const Graph& sized, const Graph& gradients) const;

  // The inputs of a step (from 0); `scale`: the factor of the loss (LossScale). Throws Error(kBadInput) if an example cannot be
  // read.
  StepInputs take(std::int64_t step, double scale);

 private:
  const Dataset& data_;
  const TrainOptions& options_;
  const std::int64_t shards_;
  const BatchPart part_;
  const std::int64_t steps_per_epoch_, steps_;
  Batches batches_;
};

}  // namespace rewright::training
