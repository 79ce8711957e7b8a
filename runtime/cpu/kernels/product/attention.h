// Attention: y = softmax(operations(q k)) v, without storing all scores at once.
#pragma once

#include <memory>
#include <vector>

#include "runtime/cpu/kernels/product/packed_product.h"

namespace rewright::cpu {

// A batch of attentions. Strides are in elements; batch strides are 0 for broadcast operands.
struct AttentionTask {
  using Count = std::int64_t;
  struct Operand {
    Count offset = 0;
    std::vector<Count> batch;  // strides
    Count rows = 0, columns = 0;
    DataType type = DataType::kFloat;  // for make_few_queries, keys and values may have 16 bits
  };
  const ProductLoops* loops = nullptr;
  int threads = 1;
  std::vector<Count> batch;  // sizes
  Count queries = 0, keys = 0, depth = 0, width = 0;
  Operand q;                       // queries x depth
  Operand k;                       // depth x keys
  Operand v;                       // keys x width
  Operand y;                       // queries x width; columns: 1
  std::vector<float> key_factors;  // factors for the columns of k; empty: none
};

// Inputs 0, 1 and 2 are q, k and v. Bias and operations of `extras` apply to the scores.
std::unique_ptr<Kernel> make_attention(AttentionTask task, ProductExtras extras, Isa isa);

// An attention of a few queries, with keys and values in place; null if there are more, or the elements of a key or value do
// not follow each other.
std::unique_ptr<Kernel> make_few_queries(const AttentionTask& task, const ProductExtras& extras, Isa isa);

// The axis of the batch becomes two, the inner one of `inner` elements, for all operands; both of q's, k's and v's strides
// along them follow from that of the axis.
void split_batch(AttentionTask& task, ProductExtras& extras, std::size_t axis, std::int64_t inner);

}  // namespace rewright::cpu
