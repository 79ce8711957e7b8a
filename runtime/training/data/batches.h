// Batches of a run over the data, gathered ahead of use.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/training/data/dataset.h"

namespace rewright::training {

// The part of each batch that a process computes: some of its shards.
struct BatchPart {
  std::int64_t batch = 1, rows = 1;   // examples of a batch, and of one of its shards
  std::int64_t first = 0, count = 1;  // shards of this process
};

struct Batch {
  std::vector<std::vector<Tensor>> shards;  // columns, by shard
  std::string complaint;                    // the place of a number that is not finite, or empty
};

// A thread gathers the next batch while one is used.
class Batches {
 public:
  // Steps continue from pass to pass; examples beyond the last whole batch are left out of a pass.
  Batches(const Dataset& data, std::vector<std::string> columns, BatchPart part, std::uint64_t seed, std::int64_t steps);
  ~Batches();
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;

  // Throws any exception from reading its examples.
  Batch take(std::int64_t step);

 private:
  void work();
  Batch gather(std::int64_t step);

  const Dataset& data_;
  const std::vector<std::string> columns_;
  const BatchPart part_;
  const std::uint64_t seed_;
  const std::int64_t steps_;
  // Used by the gathering thread.
  std::vector<std::int64_t> order_;
  std::int64_t order_of_ = -1;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t wanted_ = -1, ready_ = -1;  // steps; -1: none
  Batch batch_;                            // of step ready_
  std::exception_ptr failure_;             // thrown instead of it
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace rewright::training
