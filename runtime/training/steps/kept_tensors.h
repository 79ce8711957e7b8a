// The tensors that persist between steps (parameters, statistics, optimizer states): whole in every process, or partitioned
// (ZeRO).
#pragma once

#include <cstddef>
#include <vector>

#include "distribution/communicator.h"
#include "runtime/training/memory/parameter_layout.h"
#include "runtime/training/memory/prefetch.h"
#include "runtime/training/memory/step_memory.h"
#include "runtime/training/memory/work_queue.h"
#include "runtime/training/steps/training_step.h"

namespace rewright::training {

class KeptTensors {
 public:
  // States are partitioned from `zero` 1 on, parameters at 3. `kinds`: the number of states for each parameter. The layout must
  // outlive this object.
  KeptTensors(const ProcessLayout& layout, int zero, std::size_t kinds, Communicator& processes, WorkQueue* queue);

  // Loads all tensors in every process; gather() is called by all.
  void load(const TrainedTensors& from);
  TrainedTensors gather();

  void start_step() { prefetch_.start_step(); }
  Tensor parameter(std::size_t number);  // for a step of the graph of gradients
  std::vector<Tensor>& statistics() { return whole_.statistics; }
  // Tensors that every process has a copy of: parameters unless partitioned, and statistics.
  const TrainedTensors& copies() const { return whole_; }

  // The parameters that this process updates.
  std::vector<Tensor> updated_parameters() const;
  const std::vector<Tensor>& updated_states() const { return zero_ == 0 ? whole_.states : piece_states_; }
  // Takes the results of the update: parameters, then states.
  void take(std::vector<Tensor> after);
  // Afterwards, in all processes: sends updated parameters to the processes that hold copies.
  void share();

  std::size_t most_parameter_bytes() const;
  std::size_t most_state_bytes() const;

 private:
  bool in_parts() const { return zero_ == 3; }
  Memory made_whole(std::size_t parameter, const std::byte* mine, Gauge& gauge);
  Memory whole_parameter(std::size_t parameter, Gauge& gauge);
  void load_whole_parameters(const std::vector<Tensor>& from);
  void load_pieces(const TrainedTensors& from);

  const ProcessLayout& layout_;
  const int zero_;
  const std::size_t kinds_;
  Communicator& processes_;
  Gauge parameter_gauge_, state_gauge_;
  TrainedTensors whole_;  // from stage 1 on: views of buckets, without states
  std::vector<Memory> parameter_buckets_;
  std::vector<Tensor> piece_states_;  // all of the first kind, then of the second
  Prefetch prefetch_;
};

}  // namespace rewright::training
