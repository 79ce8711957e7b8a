// Mixed precision (Micikevicius et al., arXiv:1710.03740): products in a short type, everything else in float.
#pragma once

#include "graph/graph.h"

namespace rewright::training {

// By its denotation: is every element of the node's result a sum of products of two tensors' elements?
bool is_product(const Graph& graph, const Node& node);

// Float products and convolutions compute in `type` (float16 or bfloat16): their operands are rounded to it, and their results
// converted back to float. Sums, normalizations, losses and the constants themselves stay float. Gradients follow, since casts
// are differentiable. Sizes must be known.
void use_short_products(Graph& graph, DataType type);

// The factor that the loss is multiplied by, so that small gradients are not lost in float16. It is halved after a step that
// was not finite, and doubled after many finite ones.
struct LossScale {
  double scale = 65536;
  std::int64_t good_steps = 0;
  static constexpr std::int64_t kGrowAfter = 2000;

  // Returns whether a step that was not finite should be retried with a smaller scale.
  bool update(bool finite);
};

}  // namespace rewright::training
