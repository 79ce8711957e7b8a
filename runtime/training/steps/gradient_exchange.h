// The gradients of a step on their way from shards to the update: added up over the shards of all processes, bucket by bucket,
// while later ones are computed.
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

  // `shards`: of all processes together. The queue does what is exchanged, and ends before this; null: it is done at once. The
  // layout lives longer. Throws Error(kUsage) for options that do not go together.
  GradientExchange(const ProcessLayout& layout, const ExchangeOptions& options, Communicator& processes, std::size_t shards,
                   WorkQueue* queue);

  // `shards`: of this process.
  void start_step(std::size_t shards);
  // Where a shard's gradient is to be computed, and that it is there.
  Bytes memory(std::size_t shard, std::size_t parameter);
  void known(std::size_t shard, std::size_t parameter);
  // Sends what is missing as it is: other processes wait for it, though this one's step has failed.
  void give_up();
  void end_step();

  // In the first of these vectors, one for each shard of this process, the sum over all shards.
  void add_over_shards(std::span<const Bytes> vectors, DataType type);
  // The mean over all shards; what is not finite counts as that of gradients does.
  std::vector<double> mean_over_shards(std::vector<std::vector<double>>& values);

  // Is all of it finite, in all processes?
  bool finite();
  // Makes the length of all gradients together at most `norm`. It is added up exactly, so that it does not depend on how they
  // are spread over processes.
  void clip(double norm);
  // The gradients that this process's update reads: whole ones, or from stage 1 on its pieces.
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

  // Of one step.
  std::size_t shards_here_ = 0;
  std::vector<std::vector<Memory>> buffers_;  // by shard (if added in order) or: the sum, and the present shard; by bucket
  std::vector<Memory> parts_;                 // by bucket: the part of this process, from stage 2 on
  std::vector<std::size_t> missing_;          // by bucket: gradients that are not there yet
  std::size_t sent_ = 0;                      // buckets
  std::atomic<bool> finite_ = true;
};

}  // namespace rewright::training
