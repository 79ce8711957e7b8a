// Tensors that training keeps from step to step: parameters, statistics and the optimizer's states, whole in every process, or
// cut into parts of which each process has its own (ZeRO).
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
  // In parts: states from `zero` 1 on, parameters at 3; `kinds` of states there are for each parameter. The layout lives
  // longer.
  KeptTensors(const ProcessLayout& layout, int zero, std::size_t kinds, Communicator& processes, WorkQueue* queue);

  // All of it, in every process; gather() is called by all.
  void load(const TrainedTensors& from);
  TrainedTensors gather();

  void start_step() { prefetch_.start_step(); }
  Tensor parameter(std::size_t number);  // for a step of the graph of gradients
  std::vector<Tensor>& statistics() { return whole_.statistics; }
  // Tensors that every process has a copy of: parameters, unless they are cut.
  const TrainedTensors& copies() const { return whole_; }

  // Operands of this process's update, beside gradients.
  std::vector<Tensor> updated_parameters() const;
  const std::vector<Tensor>& updated_states() const { return zero_ == 0 ? whole_.states : piece_states_; }
  // Results of the update: parameters, then states.
  void take(std::vector<Tensor> after);
  // After it, in all processes: what has become of parameters that they have copies of.
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
  TrainedTensors whole_;  // from stage 1 on views of buckets, and without states
  std::vector<Memory> parameter_buckets_;
  std::vector<Tensor> piece_states_;  // of the first kind, then of the second
  Prefetch prefetch_;
};

}  // namespace rewright::training
