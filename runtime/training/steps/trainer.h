// The training loop: one process, or several that share each batch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "distribution/communicator.h"
#include "distribution/device_sums.h"
#include "runtime/session.h"
#include "runtime/training/data/dataset.h"
#include "runtime/training/graphs/rematerialization.h"
#include "runtime/training/graphs/training_graph.h"
#include "runtime/training/memory/checkpoint.h"
#include "runtime/training/steps/parallel_step.h"

namespace rewright::training {

// The rate of a step, as a part of the schedule's rate: linear warm-up, then ...
struct RateSchedule {
  enum class Kind {
    kConstant,
    kCosine,  // to 0 at the last step (Loshchilov and Hutter, arXiv:1608.03983, without restarts)
    kStep,    // a tenth after each third of the steps
  };
  Kind kind = Kind::kConstant;
  double rate = 0.01;
  std::int64_t warm_up = 0;                                // steps
  double at(std::int64_t step, std::int64_t steps) const;  // of step 0 to steps - 1
};

struct TrainOptions {
  TrainingOptions graph = {};
  RateSchedule schedule = {};
  std::int64_t batch = 32, epochs = 10;
  // Parts of a batch whose gradients are computed apart and added in one order: with the same number the result is the same to
  // the bit for every number of processes that divides it. 0: one for each process, added as the processes' sums come.
  std::int64_t shards = 0;
  // Batch normalizations use the statistics of the whole batch, and not of each shard. Each statistic is added up over all
  // shards while gradients are computed, forward and backward.
  bool whole_batch_statistics = false;
  ExchangeOptions exchange = {};  // of several processes or shards; in_order follows from shards
  std::int64_t check_every = 0;   // steps after which processes compare hashes of their weights; 0: never
  // Without `shards`: how many parts of its share of a batch each process computes one after another, so that the activations
  // of only one of them need memory.
  std::int64_t accumulate = 1;
  std::uint64_t seed = 0;
  bool skip_bad_steps = false;  // a step whose loss or gradient is not finite is left out; otherwise it is an error
  int threads = 1;
  bool profile = false;     // measure the operators of steps
  std::string output = {};  // the model's output that the loss is of; empty: the first
  // Makes a faster graph of one that runs in each step (the same in all processes); none: they run as they are.
  std::function<Graph(const Graph&)> rewrite = {};
  MemoryBudget memory = {};
  // Of several processes that have a GPU each: what adds up their gradients there. None: it is done on the hosts.
  DeviceSums* device_sums = nullptr;
};

struct StepReport {
  std::int64_t step, steps, epoch;  // from 1; of all; from 0
  double loss, rate, examples_per_second;
  bool skipped = false;
};

class Trainer {
 public:
  // `model` may leave the number of examples open; a caller that moves it here keeps no second copy of its weights in memory.
  // Throws Error(kBadInput) where data and model do not fit each other.
  Trainer(Graph model, const Dataset& data, const TrainOptions& options, Communicator& processes, const Backend& backend);
  ~Trainer();

  // Trains to the end, or until asked to stop (all processes stop after the same step). `report` is called after each step.
  // Returns whether it came to the end. Throws Error(kBadInput) that names the step where the loss is not finite.
  bool run(const std::stop_token& stop, const std::function<void(const StepReport&)>& report);

  // What a run needs to go on as if it had not stopped; the same for any number of processes where `shards` is. Called by all
  // processes, as are the next one and trained().
  TrainingCheckpoint checkpoint() const;
  // Throws Error(kBadInput) for one of another model or of other options.
  void resume(const TrainingCheckpoint& checkpoint);

  std::int64_t steps_done() const;
  std::optional<TrainingMemory> memory() const;  // with several processes or shards, or tensors that stay on a device
  std::size_t peak_bytes() const;                // of the intermediate values of a step, as the backend planned them
  // What was done to keep to the budget; of the first process. Null without a budget.
  const Rematerialized* rematerialized() const;
  const TrainingGraphs& graphs() const;  // for the examples of one shard
  Graph trained() const;                 // the model with what was trained
  std::vector<StepProfile> profile() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rewright::training
