// A tensor that repeats a smaller one along some axes (Tile, Expand): each element is computed once, and the rest are copies of
// whole runs of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "expressions/tensor.h"
#include "runtime/cpu/base/workers.h"

namespace rewright::cpu {

class Replication {
 public:
  // `sizes`: of the result, row-major, elements of `width` bytes; the source has size 1 along `repeated` axes.
  Replication(const Sizes& sizes, const std::vector<bool>& repeated, std::size_t width);
  void run(const std::byte* source, std::byte* result, const Workers& workers) const;

 private:
  struct Axis {
    std::int64_t extent;
    bool repeated;
    std::int64_t source, result;  // bytes from one entry to the next
  };
  void write(std::size_t axis, const std::byte* source, std::byte* result) const;
  void write_entries(std::size_t axis, std::int64_t first, std::int64_t last, const std::byte* source, std::byte* result) const;

  std::vector<Axis> axes_;  // outermost first, neighbours of one kind merged; the last one is repeated
  std::int64_t run_ = 1;    // bytes of an entry of the last axis
};

}  // namespace rewright::cpu
