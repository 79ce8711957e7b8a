// Prefetches the weights behind those that are multiplied.
#pragma once

#include <cstdint>

namespace rewright::cpu {

// Bytes by which weights that are used once, one after the other, are asked for before they are multiplied.
extern const std::int64_t stream_ahead;

// Several tiles pass over some rows of weights. Each asks for a share of as many rows behind them: a line for each row that it
// multiplies.
class WeightsAhead {
 public:
  using Count = std::int64_t;

  // A single tile passes too fast to ask for all, and asks for the first line only.
  WeightsAhead(const void* behind, Count row_bytes, Count rows, Count tiles)
      : step(tiles > 1 ? row_bytes / tiles + 1 : 0), behind_(static_cast<const char*>(behind)), rows_(rows) {}

  const Count step;  // bytes

  // The line to ask for with a row of weights; that of the next row is `step` bytes behind it.
  const char* at(Count tile, Count row = 0) const { return behind_ + (tile * rows_ + row) * step; }

 private:
  const char* behind_;
  Count rows_;
};

}  // namespace rewright::cpu
