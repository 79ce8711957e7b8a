// Shared by all modes of asynchronous training: the graphs of a step, the weights at the start, batches, and reports.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "distribution/communicator.h"
#include "runtime/session.h"
#include "runtime/training/asynchronous/flat_weights.h"
#include "runtime/training/asynchronous/mode.h"
#include "runtime/training/asynchronous/staleness.h"
#include "runtime/training/data/dataset.h"
#include "runtime/training/graphs/training_graph.h"
#include "runtime/training/steps/run_checkpoint.h"
#include "runtime/training/steps/run_data.h"
#include "runtime/training/steps/train_options.h"
#include "runtime/training/steps/trainer.h"

namespace rewright::training {

// Facts about a run that has ended.
struct AsynchronousFacts {
  std::int64_t steps = 0;     // gradients that count
  bool complete = false;      // false: stopped before the end
  double seconds = 0;         // of training
  StalenessCounts staleness;  // of updates; with servers, of all shards together
  std::size_t workers = 0, workers_lost = 0;
  std::int64_t steps_again = 0;  // given to another worker because one was lost, or slow at the end
  double written = 1;            // of HOGWILD!: the mean share of the weights and states that an update changes
};

struct AsynchronousListener {
  std::function<void(const StepReport&)> step = {};
  std::function<void(const std::string&)> note = {};
};

// A step is the gradient of one whole batch (TrainOptions::batch), which one worker computes.
class AsynchronousRun {
 public:
  // The model by move; `data` and `backend` must outlive the run. Throws Error as Trainer does.
  AsynchronousRun(Graph model, const Dataset& data, const TrainOptions& options, const AsynchronousOptions& asynchronous,
                  const Backend& backend);

  const TrainOptions& options() const { return options_; }
  const AsynchronousOptions& asynchronous() const { return asynchronous_; }
  const TrainingGraphs& graphs() const { return graphs_; }
  const FlatLayout& layout() const { return layout_; }
  std::int64_t steps() const { return data_->steps(); }
  std::int64_t steps_per_epoch() const { return data_->steps() / options_.epochs; }
  // The rate of the step with this number, from 0.
  double rate(std::int64_t step) const { return options_.schedule.at(std::min(step, steps() - 1), steps()); }
  // Facts that must agree among processes.
  RunFacts facts(const Backend& backend) const;

  // The current weights: those at the start, then the result.
  std::vector<float>& weights() { return weights_; }
  std::vector<Tensor> batch(
      std::int64_t step);                     // the inputs of Replica::gradient. Throws Error for numbers that are not finite
  std::unique_ptr<RunData> own_data() const;  // batches for another thread
  Replica replica(int threads) const;
  OwnedWeights owned(FlatRange range, int threads) const;
  // Throws Error(kBadInput) with the step's number, from 0, for a loss that is not finite; returns if such steps are skipped.
  void require_finite(double loss, std::int64_t step) const;
  StepReport report(std::int64_t done, double loss, double seconds) const;
  Graph trained() const;

 private:
  PrepareSession prepare(int threads) const;

  Graph model_;
  const Dataset& examples_;
  const TrainOptions options_;
  const AsynchronousOptions asynchronous_;
  const Backend& backend_;
  const std::unique_ptr<Communicator> alone_ = make_local_communicator();
  TrainOptions whole_batches_;
  std::unique_ptr<RunData> data_;
  TrainingGraphs graphs_;
  TrainedTensors start_;
  FlatLayout layout_;
  std::vector<float> weights_;
};

// The inputs of a step from its data. Throws Error(kBadInput) for numbers that are not finite, unless such steps are skipped.
std::vector<Tensor> batch_of(RunData& data, std::int64_t step, const TrainOptions& options);

}  // namespace rewright::training
