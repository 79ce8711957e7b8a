// The options of a training run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "distribution/device_sums.h"
#include "runtime/training/graphs/rematerialization.h"
#include "runtime/training/graphs/training_graph.h"
#include "runtime/training/steps/exchange_options.h"
#include "runtime/training/steps/rate_schedule.h"
#include "runtime/training/steps/training_step.h"

namespace rewright::training {

struct TrainOptions {
  TrainingGraphOptions graph = {};  // seed, `guarded` and `shared_by` are set from the options below
  RateSchedule schedule = {};
  std::int64_t batch = 32, epochs = 10;
  // Parts of a batch whose gradients are computed separately and added in a fixed order: for a given number of shards, the bits
  // are the same for every number of processes that divides it. 0: one shard for each process (and for each part of
  // `accumulate`), added in the fastest order.
  std::int64_t shards = 0;
  // Batch normalizations use statistics of the whole batch instead of each shard. Each statistic is summed over all shards in
  // the forward and in the backward pass.
  bool whole_batch_statistics = false;
  ExchangeOptions exchange = {};  // between processes or shards; in_order follows from `shards`
  std::int64_t check_every = 0;   // number of steps between comparisons of the processes' weights by hash; 0: never
  // With `shards` 0: each process divides its share of a batch into this many parts and computes them one after the other, so
  // that only one part's activations are in memory.
  std::int64_t accumulate = 1;
  std::uint64_t seed = 0;
  bool skip_bad_steps = false;  // skips steps whose loss or gradient is not finite; otherwise they are errors
  int threads = 1;
  bool profile = false;     // measure the operators of steps
  std::string output = {};  // the model's output for the loss; empty: the first
  // Returns a faster equivalent of a graph that runs in each step; the same in all processes. Empty: graphs are not rewritten.
  std::function<Graph(const Graph&)> rewrite = {};
  MemoryBudget memory = {};
  // Sums gradients in GPU memory. Null: in host memory.
  DeviceSums* device_sums = nullptr;
  // Makes the step of a plan (runtime/planned/planned_step.h), of a graph that is not guarded. Every process then reads whole
  // batches, and what a process has of anything is the plan's matter. `start` may be views of the model's file. Empty: each
  // process takes its shards of a batch.
  std::function<std::unique_ptr<TrainingStep>(const TrainingGraphs& graphs, TrainedTensors start)> planned = {};
};

}  // namespace rewright::training
