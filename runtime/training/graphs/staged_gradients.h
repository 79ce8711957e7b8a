// The graph of gradients where it is cut by sums over all shards (shared_statistics.h): what comes before a sum is computed for
// all shards of the process, then the sum is made with the other processes, then comes what reads it.
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
  // Puts the sum over the shards of all processes into the first of these vectors, which are the shares of this process's.
  using AddUp = std::function<void(std::span<const std::span<std::byte>> shares, DataType type)>;

  // The last `sums` outputs of the graph are shares, the last inputs their sums, in the same order. The graph lives longer.
  StagedGradients(const Graph& graph, std::size_t sums, const Prepare& prepare);

  // One run for each shard of this process; streams are asked for all inputs but the sums, and given all outputs but the
  // shares. Each output comes for all shards, in their order, before a later stage's.
  void run(std::span<TensorStream* const> shards, const AddUp& add_up);

  const std::vector<Tensor>& sums() const { return sums_; }  // of the last run
  // Of the largest stage, and of what lies between stages.
  std::size_t peak_bytes() const;
  std::vector<StepProfile> profile() const;

 private:
  using Values = std::map<ValueId, Tensor>;  // of one shard: what later stages read
  struct Stage {
    Part part;
    std::vector<std::size_t> summed;  // after it
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
  std::map<ValueId, std::size_t> sum_of_;    // inputs that are sums
  std::map<ValueId, std::size_t> input_of_;  // the others
  std::map<ValueId, std::vector<std::size_t>> outputs_of_;
  std::vector<bool> kept_;  // values that lie in memory of their own until no stage reads them
  std::vector<Stage> stages_;
  std::vector<Tensor> sums_;
  std::size_t kept_bytes_ = 0, most_kept_bytes_ = 0;
};

}  // namespace rewright::training
