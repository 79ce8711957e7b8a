// Products of many rows of bytes with weights in blocks by tile registers (AMX).
#pragma once

#include "runtime/cpu/loops/block_loops.h"

namespace rewright::cpu {

struct BlockTiles {
  using Count = std::int64_t;
  static constexpr Count kMostRows = 64;

  // Are tiles faster than vectors for so many rows? Measured; blocks are divided into equal steps.
  static bool pay(const BlockShape& shape, Count rows) {
    constexpr Count kLeastBlock = 32, kLeastRows = 12, kTileBytes = 64;
    const bool is_divided = shape.block % 4 == 0 && (shape.block <= kTileBytes || shape.block % kTileBytes == 0);
    return is_divided && shape.block >= kLeastBlock && rows >= kLeastRows;
  }
  // As BlockLoops::multiply_bytes, with the same bits, for at most kMostRows rows, which lie equally far apart. The processor
  // must have tile registers.
  static void multiply_bytes(const BlockShape& shape, const std::byte* panel, const ByteRow* rows, Count count,
                             const float* start, float* y, Count y_stride);
};

}  // namespace rewright::cpu
