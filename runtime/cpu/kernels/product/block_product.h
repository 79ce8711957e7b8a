// Products of floats with weights of a few bits in blocks: as they are in memory, a few rows are multiplied in integers, and
// for many rows the weights become floats panel by panel.
#pragma once

#include <cstdint>
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

// The n-th of integers of a few bits that lie one after the other in bytes, low bits first.
std::uint32_t packed_integer(const std::uint8_t* bytes, std::int64_t n, std::int64_t bits);

// The panels for these weights, as wide as those of floats.
BlockShape block_shape(const BlockWeights& weights, const PackedShape& floats);
// Packs all panels; scales are multiplied by `column_factors` (one for each column, or none).
void pack(const BlockWeights& weights, const BlockShape& shape, std::span<const float> column_factors, std::byte* target);

// Products of rows with packed weights in integers: each row becomes integers first. `precise`: as make_block_product.
class BlockRows {
 public:
  BlockRows(const BlockLoops& loops, const BlockShape& shape, bool precise);

  const BlockShape& shape() const { return shape_; }
  // Are integers faster than floats for so many rows?
  bool are_faster(std::int64_t rows) const;
  std::int64_t row_bytes() const;  // of a row as integers
  // False if an element cannot be split: then rows stay floats.
  bool split(const float* row, std::int64_t stride, std::byte* target) const;
  // The rows and panels `part` of a task whose rows lie at `split`, row_bytes() apart.
  void multiply(const ProductTask& task, const std::byte* packed, std::byte* split, float* y,
                std::span<const float* const> addends, const ProductTask::Part& part) const;
  // As UnpackedPanels.
  void unpack(const std::byte* packed, std::int64_t panel, std::int64_t first, std::int64_t last, float* rows) const {
    loops_.unpack(shape_, packed + panel * shape_.panel_bytes(), first, last, rows);
  }
  double nanoseconds(std::int64_t rows) const;  // of one thread, roughly

 private:
  // Two integers of 16 bits for each element, or one, or a byte.
  enum class Operand { kPairs, kHalves, kBytes };

  std::int64_t element_bytes() const { return operand_ == Operand::kPairs ? 4 : operand_ == Operand::kHalves ? 2 : 1; }
  SplitRow split_row(std::byte* row) const;
  ByteRow byte_row(std::byte* row) const;
  void multiply_panel(const ProductTask& task, const std::byte* packed, std::byte* split, float* y,
                      std::span<const float* const> addends, std::int64_t top, std::int64_t bottom, std::int64_t panel) const;

  const BlockLoops& loops_;
  BlockShape shape_;
  Operand operand_;
  bool has_tiles_;
};

// A tensor, starting `a_offset` elements into input 0, times packed weights. `precise`: as sums of floats; otherwise its
// elements may be rounded to 8 bits: by at most 1/254 of the largest of a block.
std::unique_ptr<Kernel> make_block_product(ProductTask task, const BlockLoops& loops, const BlockShape& shape, bool precise,
                                           std::int64_t a_offset, Tensor packed, ProductExtras extras);

}  // namespace rewright::cpu
