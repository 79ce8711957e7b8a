// A step whose batch is divided into shards, in one process or several. Gradients are exchanged while later ones are computed.
// Each process may hold only a part of the tensors (ExchangeOptions::zero).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "distribution/communicator.h"
#include "runtime/session.h"
#include "runtime/training/graphs/training_graph.h"
#include "runtime/training/steps/exchange_options.h"
#include "runtime/training/steps/training_step.h"

namespace rewright::training {

// Make sessions for the graphs of a step.
struct PrepareParallel {
  using Prepare = std::function<std::unique_ptr<Session>(const Graph& graph)>;
  Prepare gradients;   // the graph of gradients; its parts if shards share statistics
  Prepare update;      // for whole parameters: the same graph in all processes
  Prepare own_update;  // for the process's pieces of parameters: a different graph in each process
};

// `graphs` and `processes` must outlive the step. `shards`: of all processes. Throws Error(kUsage) for options that exclude
// each other.
std::unique_ptr<TrainingStep> make_parallel_step(const TrainingGraphs& graphs, const TrainingGraphOptions& training,
                                                 const ExchangeOptions& exchange, Communicator& processes, std::int64_t shards,
                                                 const PrepareParallel& prepare, const TrainedTensors& start);

}  // namespace rewright::training
