// Parameters in parts (ZeRO, stage 3), fetched for the steps of a graph: while one is used the next one comes.
#pragma once

#include <cstddef>
#include <functional>
#include <future>
#include <optional>
#include <vector>

#include "runtime/training/memory/step_memory.h"
#include "runtime/training/memory/work_queue.h"

namespace rewright::training {

class Prefetch {
 public:
  // A parameter by its number, made whole with the other processes.
  using Fetch = std::function<Memory(std::size_t parameter)>;
  // The queue does what is fetched, and ends before this; null: nothing is fetched ahead.
  Prefetch(Fetch fetch, WorkQueue* queue);

  void start_step();
  // The parameter for a step of the graph. The first step's order is taken for that of all. Every process asks in the same
  // order, so that they also fetch in the same one.
  Memory take(std::size_t parameter);

 private:
  struct Fetched {
    std::size_t parameter;
    std::future<Memory> memory;
  };
  Fetched start(std::size_t parameter);

  Fetch fetch_;
  WorkQueue* queue_;
  std::vector<std::size_t> order_;  // as the first step asked
  std::size_t taken_ = 0;           // in the present step
  std::optional<Fetched> ahead_;
};

}  // namespace rewright::training
