// Exchanges the gradients of a step: sums them over the shards of all processes, bucket by bucket, while later gradients are
// computed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "distribution/communicator.h"
#include "runtime/training/memory/parameter_layout.h"
#include "runtime/training/memory/step_memory.h"
#include "runtime/training/memory/work_queue.h"
#include "runtime/training/steps/exchange_options.h"

namespace rewright::training {

class GradientExchange {
 public:
  using Bytes = std::span<std::byte>;

  // `shards`: of all processes. The queue runs exchanges and must end before this object; null: they run at once. The layout
  // must outlive this object. Throws Error(kUsage) for options that exclude each other.
  GradientExchange(const ProcessLayout& layout, const ExchangeOptions& options, Communicator& processes, std::size_t shards,
                   WorkQueue* queue);

  // `shards`: of this process.
  void start_step(std::size_t shards);
  // The memory for a shard's gradient, and the call when it is complete.
  Bytes memory(std::size_t shard, std::size_t parameter);
  void known(std::size_t shard, std::size_t parameter);
  // Sends missing gradients as they are: this process's step has failed, but others wait.
  void give_up();
  void end_step();

  // Replaces the first of these vectors (one for each shard of this process) by the sum over all shards.
  void add_over_shards(std::span<const Bytes> vectors, DataType type);
  // The mean over all shards; checked for finiteness like gradients.
  std::vector<double> mean_over_shards(std::vector<std::vector<double>>& values);

  // Is everything finite in all processes?
  bool finite();
  // Scales all gradients so that their joint norm is at most `norm`. The norm is summed exactly, so that it does not depend on
  // how gradients are distributed.
  void clip(double norm);
  // The gradients for this process's update: whole, or its pieces from stage 1 on.
  std::vector<Tensor> means() const;

  std::size_t most_bytes() const { return gauge_.most; }

 private:
  std::size_t buffer_of(std::size_t shard) const;
  void send_what_is_complete();
  void exchange_bucket(std::size_t b);
  void add_up(std::span<const Bytes> vectors, const Bucket& of, DataType type);
  void add_up_narrowed(std::span<const Bytes> vectors, std::size_t b, Bytes sum);
  Bytes mean_of_bucket(std::size_t b);

  const ProcessLayout& layout_;
  const ExchangeOptions options_;
  Communicator& processes_;
  const std::size_t shards_;
  WorkQueue* queue_;
  Gauge gauge_;

  // State of the current step.
  std::size_t shards_here_ = 0;
  std::vector<std::vector<Memory>> buffers_;  // by shard (if added in order), or the sum and the current shard; then by bucket
  std::vector<Memory> parts_;                 // by bucket: this process's part, from stage 2 on
  std::vector<std::size_t> missing_;          // by bucket: incomplete gradients
  std::size_t sent_ = 0;                      // buckets
  std::atomic<bool> finite_ = true;
};

}  // namespace rewright::training
