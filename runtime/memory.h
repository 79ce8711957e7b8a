// Static memory planning: values that are never needed at the same time share memory.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace rewright::runtime {

// Memory needed from step `first` to step `last`, inclusive. The plan sets `offset`.
struct Extent {
  std::size_t bytes = 0;
  int first = 0, last = 0;
  std::size_t offset = 0;
};

// Places all extents, the largest first, each in the smallest gap that is free during its whole lifetime. Returns the total
// bytes.
std::size_t assign_offsets(std::span<Extent> extents, std::size_t alignment);
// For steps without a total order: `meet` tells whether two extents, given by number, may be needed at the same time.
std::size_t assign_offsets(std::span<Extent> extents, std::size_t alignment,
                           const std::function<bool(std::size_t, std::size_t)>& meet);

}  // namespace rewright::runtime
