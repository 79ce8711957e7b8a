// Statistics of a whole batch that is computed in shards. A mean over all shards is a sum of each shard's share, so the graph
// of gradients is cut there: a shard's share is an output, the sum over all shards an input. In the backward pass the gradient
// of such a sum is again a sum over all shards, since each of them uses it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/builder.h"

namespace rewright::training {

// One shard's share, and the placeholder for the sum over all shards: a value that is neither computed nor constant.
struct SharedSum {
  ValueId share, sum;
};

// A builder whose means over the first axis (examples) are means over all shards, which have equal sizes.
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

// Adds a placeholder for a sum of values of this type.
ValueId add_sum(Graph& graph, const TensorType& type);

// Drops sums that no node reads.
void drop_unused(const Graph& graph, std::vector<SharedSum>& sums);

// Moves the nodes that a share depends on before the readers of its sum; otherwise keeps the order.
void order_by_sums(Graph& graph, std::span<const SharedSum> sums);

}  // namespace rewright::training
