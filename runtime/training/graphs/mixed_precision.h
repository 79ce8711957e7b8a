// Mixed precision (Micikevicius et al., arXiv:1710.03740): products in a short type, everything else in float.
#pragma once

#include "graph/graph.h"

namespace rewright::training {

// Is every element of the node's result a sum of products of two tensors' elements? Its denotation says.
bool is_product(const Graph& graph, const Node& node);

// Products and convolutions of floats compute in `type` (float16 or bfloat16), from operands that are rounded to it, with
// results that are floats again. Sums, normalizations, losses and the constants themselves stay floats; gradients follow, as
// those of casts are casts. Sizes must be known.
void use_short_products(Graph& graph, DataType type);

// The factor that gradients are computed with, so that small ones are not lost in float16: it is halved after a step that was
// not finite, and doubled after so many that were.
struct LossScale {
  double scale = 65536;
  std::int64_t good_steps = 0;
  static constexpr std::int64_t kGrowAfter = 2000;

  // Returns whether a step that was not finite is the scale's fault, to be tried again with a smaller one.
  bool update(bool finite);
};

}  // namespace rewright::training
