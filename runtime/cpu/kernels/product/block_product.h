// Products of floats with weights of a few bits in blocks: as they are in memory, a few rows are multiplied in integers, and
// for many rows the weights become floats panel by panel.
#pragma once

#include <memory>
#include <span>

#include "expressions/tensor.h"
#include "runtime/cpu/kernels/product/packed_product.h"
#include "runtime/cpu/loops/block_loops.h"

namespace rewright::cpu {

// Constant weights as MatMulNBits has them: integers of `bits` bits, low bits first, [columns, blocks, block], scales [columns,
// blocks], and zero points likewise, each row in bytes of its own (empty: half of the integers' range).
struct BlockWeights {
  Tensor integers, scales, zeros;
  std::int64_t rows = 0, columns = 0, block = 0, bits = 0;
};

// The panels for these weights, as wide as those of floats.
BlockShape block_shape(const BlockWeights& weights, const PackedShape& floats);
// Packs all panels; scales are multiplied by `column_factors` (one for each column, or none).
void pack(const BlockWeights& weights, const BlockShape& shape, std::span<const float> column_factors, std::byte* target);

// A tensor, starting `a_offset` elements into input 0, times packed weights. `precise`: as sums of floats; otherwise its
// elements may be rounded to 8 bits: by at most 1/254 of the largest of a block.
std::unique_ptr<Kernel> make_block_product(ProductTask task, const BlockLoops& loops, const BlockShape& shape, bool precise,
                                           std::int64_t a_offset, Tensor packed, ProductExtras extras);

}  // namespace rewright::cpu
