// Chooses the kind of step for a run, and makes its graphs and sessions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "distribution/communicator.h"
#include "runtime/resident.h"
#include "runtime/session.h"
#include "runtime/training/graphs/rematerialization.h"
#include "runtime/training/graphs/training_graph.h"
#include "runtime/training/steps/train_options.h"
#include "runtime/training/steps/training_step.h"

namespace rewright::training {

//   StepMaker maker(options, shards, processes, backend);
//   const TrainingGraphs graphs = maker.make_graphs(sized);
//   const std::unique_ptr<TrainingStep> step = maker.make_step(graphs, start);
class StepMaker {
 public:
  // `shards`: of all processes. Throws Error(kUsage) for options that exclude each other. The references must outlive this
  // object and the step.
  StepMaker(const TrainOptions& options, std::int64_t shards, Communicator& processes, const Backend& backend);

  // `sized`: the model with the sizes of one shard.
  TrainingGraphs make_graphs(const Graph& sized);
  // A step of the graphs last returned by make_graphs(), which must outlive it. `start`: states may be views of the same zeros;
  // parameters and statistics must not be shared.
  std::unique_ptr<TrainingStep> make_step(const TrainingGraphs& graphs, TrainedTensors start);

  // How the memory budget is met; nullopt without a budget, and before make_step().
  const std::optional<Rematerialized>& rematerialized() const { return rematerialized_; }

 private:
  std::unique_ptr<TrainingStep> on_device(const TrainingGraphs& graphs, const ExchangeOptions& exchange,
                                          const TrainedTensors& start);
  std::unique_ptr<TrainingStep> in_parallel(const TrainingGraphs& graphs, const ExchangeOptions& exchange,
                                            const TrainedTensors& start);
  Graph rewritten(const Graph& graph) const;
  Graph rewritten_to_budget(const Graph& graph);
  std::unique_ptr<Session> prepared(const Graph& graph) const;

  const TrainOptions& options_;
  const std::int64_t shards_;
  Communicator& processes_;
  const Backend& backend_;
  const SessionOptions session_;
  const ResidentBackend* device_;  // keeps the tensors; null: the host does
  TrainingGraphOptions graph_;
  std::optional<Rematerialized> rematerialized_;
};

}  // namespace rewright::training
