// Executes the graph of gradients in stages, separated by sums over all shards (shared_statistics.h): each stage runs for all
// shards of the process, then the sum is computed with the other processes.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "runtime/parts.h"
#include "runtime/stream.h"

namespace rewright::training {

class StagedGradients {
 public:
  using Prepare = std::function<std::unique_ptr<Session>(const Graph& part)>;
  // Replaces the first of these vectors (the shares of this process's shards) by the sum over the shards of all processes.
  using AddUp = std::function<void(std::span<const std::span<std::byte>> shares, DataType type)>;

  // The graph's last `sums` outputs are shares, its last inputs their sums, in the same order. The graph must outlive this
  // object.
  StagedGradients(const Graph& graph, std::size_t sums, const Prepare& prepare);

  // One stream for each shard of this process. It is asked for all inputs except sums, and gets all outputs except shares. Each
  // output is delivered for all shards, in order, before a later stage's.
  void run(std::span<TensorStream* const> shards, const AddUp& add_up);

  const std::vector<Tensor>& sums() const { return sums_; }  // of the last run
  // Peak bytes of the largest stage and of the values kept between stages.
  std::size_t peak_bytes() const;
  std::vector<StepProfile> profile() const;

 private:
  using Values = std::map<ValueId, Tensor>;  // of one shard, read by later stages
  struct Stage {
    Part part;
    std::vector<std::size_t> summed;  // after this stage
    std::vector<ValueId> not_read_any_more;
    std::unique_ptr<Session> session;
  };
  struct Stream;

  void cut();
  void find_last_uses();
  void add_up(const Stage& stage, std::vector<Values>& values, const AddUp& how);
  void hand_over_leaves(TensorStream& shard);
  void keep(Values& values, ValueId id, Tensor tensor);
  void let_go(Values& values, ValueId id);

  const Graph& graph_;
  std::vector<ValueId> shares_;              // by sum
  std::map<ValueId, std::size_t> sum_of_;    // sums by input
  std::map<ValueId, std::size_t> input_of_;  // the other inputs
  std::map<ValueId, std::vector<std::size_t>> outputs_of_;
  std::vector<bool> kept_;  // values kept in their own memory until no stage reads them
  std::vector<Stage> stages_;
  std::vector<Tensor> sums_;
  std::size_t kept_bytes_ = 0, most_kept_bytes_ = 0;
};

}  // namespace rewright::training
