// The training loop, in one process or in several that share each batch.
//
//   const std::unique_ptr<Communicator> processes = make_communicator();
//   Trainer trainer(std::move(model), data, options, *processes, backend);
//   trainer.run(stop.get_token(), [](const StepReport& r) { std::cout << r.step << ": " << r.loss << "
// "; });
//   const Graph trained = trainer.trained();
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "distribution/communicator.h"
#include "runtime/session.h"
#include "runtime/training/data/dataset.h"
#include "runtime/training/graphs/rematerialization.h"
#include "runtime/training/graphs/training_graph.h"
#include "runtime/training/memory/checkpoint.h"
#include "runtime/training/steps/train_options.h"
#include "runtime/training/steps/training_step.h"

namespace rewright::training {

struct StepReport {
  std::int64_t step;   // from 1
  std::int64_t steps;  // of the whole run
  std::int64_t epoch;  // from 0
  double loss;         // NaN if the step was skipped
  double rate, examples_per_second;
  bool skipped = false;  // loss or gradient was not finite; nothing changed
};

class Trainer {
 public:
  // The model's number of examples may be symbolic. Pass the model by move, or its weights are in memory twice. `data`,
  // `processes` and `backend` must outlive the trainer. Throws Error(kBadInput) if data and model do not fit, and Error(kUsage)
  // for options that exclude each other or differ between processes.
  Trainer(Graph model, const Dataset& data, const TrainOptions& options, Communicator& processes, const Backend& backend);
  ~Trainer();

  // Trains to the end, or until `stop` is requested in any process; all processes stop after the same step. Calls `report`
  // after each step. Returns whether the end was reached. Throws Error(kBadInput) with the number of a step whose loss is not
  // finite.
  bool run(const std::stop_token& stop, const std::function<void(const StepReport&)>& report);

  // Everything needed to resume the run with the same results; with TrainOptions::shards, independent of the number of
  // processes. checkpoint(), resume() and trained() are called by all processes; the first one's checkpoint is complete.
  TrainingCheckpoint checkpoint() const;
  // Throws Error(kBadInput) for the checkpoint of another model or of other options.
  void resume(const TrainingCheckpoint& checkpoint);

  std::int64_t steps_done() const;
  std::optional<TrainingMemory> memory() const;  // as TrainingStep::memory
  std::size_t peak_bytes() const;                // as TrainingStep::peak_bytes
  // How the memory budget is met; complete in process 0 only. Null without a budget.
  const Rematerialized* rematerialized() const;
  const TrainingGraphs& graphs() const;  // for the examples of one shard
  // The model with the trained weights and statistics; unless `everywhere`, in the first process alone.
  Graph trained(bool everywhere = true) const;
  std::vector<StepProfile> profile() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rewright::training
