// A step of training whose batch is computed in shards, by one process or by several: gradients are exchanged while later ones
// are computed, and what training keeps may be cut into parts, one for each process (ZeRO: Rajbhandari et al., SC 2020).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "distribution/all_reduce.h"
#include "runtime/session.h"
#include "runtime/training/graphs/training_graph.h"

namespace rewright::training {

struct ExchangeOptions {
  AllReduce all_reduce = {};
  // Shards are added one after the other, which gives the same bits for any number of processes; all_reduce is not used then.
  bool in_order = false;
  std::size_t bucket_bytes = std::size_t{4} << 20;  // gradients that travel together; 0: all of them
  DataType gradients = DataType::kFloat;            // float gradients travel as these: float, float16 or bfloat16
  // What each process has only a part of: 1: states, 2: gradients as well, 3: parameters as well.
  int zero = 0;
};

struct TrainedTensors {
  std::vector<Tensor> parameters, statistics, states;  // in the order of TrainingGraphs
};

// The most bytes that a process had at once.
struct TrainingMemory {
  std::size_t parameters, gradients, states;
};

// The outputs of a graph, by number, in the order in which it computes them.
std::vector<std::size_t> outputs_as_computed(const Graph& graph);

class ParallelStep {
 public:
  // A session for a graph, which may be the same in all processes or not.
  using Prepare = std::function<std::unique_ptr<Session>(const Graph& graph, bool same_in_all)>;
  // `shards`: of all processes together. Throws Error(kUsage) for options that do not go together.
  ParallelStep(const TrainingGraphs& graphs, const TrainingOptions& training, const ExchangeOptions& exchange,
               Communicator& processes, std::int64_t shards, const Prepare& prepare, const TrainedTensors& start);
  ~ParallelStep();

  // One step on the shards of this process (each: the inputs of the graph of gradients before parameters); returns the loss. If
  // it, a gradient or a statistic is not finite anywhere, or a process calls its shards bad, nothing has changed, and it
  // returns NaN.
  double advance(const std::vector<std::vector<Tensor>>& shards, const std::vector<Tensor>& schedule, bool bad = false);

  // All of it, in every process. Called by all processes.
  TrainedTensors gather();
  void load(const TrainedTensors& tensors);

  // Hashes of what every process has a copy of: parameters (unless they are cut), then statistics.
  std::vector<std::uint64_t> copies() const;
  // Of the last step: what the last inputs of the graph of gradients were.
  std::vector<Tensor> sums() const;
  TrainingMemory memory() const;
  std::size_t peak_bytes() const;            // of intermediate values of the gradients
  std::vector<StepProfile> profile() const;  // of the gradients and the update, if the sessions are profiled

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rewright::training
