// The options of a training run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "distribution/device_sums.h"
#include "runtime/training/graphs/rematerialization.h"
#include "runtime/training/graphs/training_graph.h"
#include "runtime/training/steps/exchange_options.h"
#include "runtime/training/steps/rate_schedule.h"

namespace rewright::training {

struct TrainOptions {
  TrainingGraphOptions graph = {};  // its seed, `guarded` and `shared_by` follow from the options below
  RateSchedule schedule = {};
  std::int64_t batch = 32, epochs = 10;
  // Parts of a batch whose gradients are computed separately and added in a fixed order: for a given number of shards, the
  // result has the same bits for every number of processes that divides it. 0: one shard for each process (and for each part of
  // `accumulate`), added in whatever order is fastest.
  std::int64_t shards = 0;
  // Batch normalizations use the statistics of the whole batch instead of each shard's. Each statistic is summed over all
  // shards while gradients are computed, in the forward and in the backward pass.
  bool whole_batch_statistics = false;
  ExchangeOptions exchange = {};  // between processes or shards; in_order follows from `shards`
  std::int64_t check_every = 0;   // processes compare hashes of their weights after this many steps; 0: never
  // With `shards` 0: the number of parts that each process divides its share of a batch into and computes one after another, so
  // that only one part's activations need memory at a time.
  std::int64_t accumulate = 1;
  std::uint64_t seed = 0;
  bool skip_bad_steps = false;  // leaves out a step whose loss or gradient is not finite, which otherwise is an error
  int threads = 1;
  bool profile = false;     // measure the operators of steps
  std::string output = {};  // the model's output that the loss is computed from; empty: the first
  // Returns a faster graph that computes the same, for a graph that runs in each step; the same in all processes. Empty: graphs
  // are not rewritten.
  std::function<Graph(const Graph&)> rewrite = {};
  MemoryBudget memory = {};
  // Adds up gradients in the memory of the processes' GPUs. Null: they are added in the memory of the hosts.
  DeviceSums* device_sums = nullptr;
};

}  // namespace rewright::training
