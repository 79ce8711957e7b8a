// Inner loops of products with weights of 2, 4 or 8 bits in blocks, one table for each instruction set.
//
// A panel of some columns is one stream: for each block of rows its columns' scales (floats), their zero points (bytes, if they
// differ), and words of 32 bits, one for each column, of 32 / bits rows each. Row i of a word lies in its half i % 2, so that a
// vector of halves, shifted and masked, is multiplied by pairs of elements of the left operand.
//
// The left operand is split into integers: a[k] = step * (high[k] + low[k] / 2^15), with a step for each block. Sums within a
// block are exact then, and an element's error is below 2^-29 of the block's largest; without `low`, below 2^-15. Or it is
// rounded to bytes, a[k] = step * byte[k], where an error of 1/254 of the block's largest is permitted: then four products are
// one instruction, or nearly so.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/cpu/base/isa.h"

namespace rewright::cpu {

// The weights' sizes and form.
struct BlockShape {
  using Count = std::int64_t;
  static constexpr Count kMostRows = 256;  // of a block: its sums fit into 32 bits
  Count rows = 0, columns = 0;             // of the matrix
  Count block = 32, bits = 4;
  int zero = 8;                  // of all columns ...
  bool has_zeros = false;        // ... unless they differ
  Count vectors = 1, width = 0;  // of a panel: in vectors, in columns

  Count blocks() const { return (rows + block - 1) / block; }
  Count words() const { return block * bits / 32; }                 // of a column of a block
  Count head_bytes() const { return width * (has_zeros ? 5 : 4); }  // scales and zero points of a block
  Count block_bytes() const { return head_bytes() + width * 4 * words(); }
  Count panels() const { return (columns + width - 1) / width; }
  Count panel_bytes() const { return blocks() * block_bytes(); }
  Count bytes() const { return panels() * panel_bytes(); }
};

// A row of the left operand, split into integers.
struct SplitRow {
  struct Block {
    float step;
    std::int32_t high, low;  // sums
  };
  std::int16_t *high, *low;  // of all blocks, with zeros behind the row; low: null if it is not wanted
  Block* blocks;
};

// A row of the left operand, rounded to bytes. Those that meet a word of weights lie in the order of its bytes: the first and
// the second half of the word's rows take turns.
struct ByteRow {
  struct Block {
    float step;
    std::int32_t sum;
  };
  std::int8_t* bytes;  // of all blocks, with zeros behind the row
  Block* blocks;
};

struct BlockLoops {
  // The table for each instruction set.
  static const BlockLoops &baseline(), &avx2(), &avx512(), &vnni();
  // The best that the processor has, up to `isa`.
  static const BlockLoops& best(Isa isa);

  using Count = std::int64_t;
  Count lanes;  // columns of a vector
  // False if the row has elements that are not finite, or too large or small to be split.
  bool (*split)(const SplitRow& row, const float* a, Count stride, Count depth, Count block);
  // y[c] = start[c] + sum(k) a[k] w[k, c] for all columns of a panel. start: null for zeros. Without `low`, and of several
  // rows, only where rows may not be bytes.
  void (*multiply)(const BlockShape& shape, const std::byte* panel, const SplitRow& row, const float* start, float* y);
  // Multiplies several rows, without `low`: row r is y + r * y_stride.
  static constexpr Count kMostRows = 4;
  void (*multiply_rows)(const BlockShape& shape, const std::byte* panel, const SplitRow* rows, Count count, const float* start,
                        float* y, Count y_stride);
  // Bits of weights up to which rows may be bytes; 0: none.
  Count byte_bits;
  // As `split`.
  bool (*round)(const ByteRow& row, const float* a, Count stride, const BlockShape& shape);
  // As multiply_rows, for at most `most_byte_rows[shape.vectors]` rows.
  static constexpr Count kMostVectors = 4, kMostByteRows = 6;
  Count most_byte_rows[kMostVectors + 1];
  void (*multiply_bytes)(const BlockShape& shape, const std::byte* panel, const ByteRow* rows, Count count, const float* start,
                         float* y, Count y_stride);
  // y[(r - first) * width + c] = w[r, c] for rows first <= r < last and all columns of a panel; the rows begin a word.
  void (*unpack)(const BlockShape& shape, const std::byte* panel, Count first, Count last, float* y);
};

}  // namespace rewright::cpu
