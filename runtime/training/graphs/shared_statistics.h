// Statistics of a whole batch that is computed in shards. A mean over the examples of all shards is the sum of what each shard
// adds to it, so the graph of gradients is cut there: the share of a shard is an output, the sum over all shards an input.
// Going backward, the gradient of such a sum is a sum over all shards again, because each of them has used it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/builder.h"

namespace rewright::training {

// A value of one shard, and what stands for its sum over all shards: a value that is neither computed nor constant.
struct SharedSum {
  ValueId share, sum;
};

// A builder whose means over the first axis, that of examples, are those over all of so many shards of equal sizes.
class SharingBuilder final : public GraphBuilder {
 public:
  SharingBuilder(Graph& graph, std::int64_t shards, std::vector<SharedSum>& sums)
      : graph_(graph), builder_(graph), shards_(shards), sums_(sums) {}
  const TensorType& type_of(ValueId value) const override { return builder_.type_of(value); }
  std::vector<ValueId> node(const Operator& op, Attributes attributes, std::vector<ValueId> inputs) override;
  ValueId constant(Tensor tensor) override { return builder_.constant(std::move(tensor)); }

 private:
  Graph& graph_;
  NodeBuilder builder_;
  const std::int64_t shards_;
  std::vector<SharedSum>& sums_;
};

// A placeholder for a sum of values of this type.
ValueId add_sum(Graph& graph, const TensorType& type);

// Leaves out sums that no node reads.
void drop_unused(const Graph& graph, std::vector<SharedSum>& sums);

// Puts what a share is computed from before what reads its sum; otherwise the order of the nodes stays.
void order_by_sums(Graph& graph, std::span<const SharedSum> sums);

}  // namespace rewright::training
