#include "runtime/memory.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace rewright::runtime {

namespace {

// `meet` is asked for every two of them.
template <class Meet>
std::size_t place(std::span<Extent> extents, std::size_t alignment, const Meet& meet) {
  const auto aligned = [&](std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; };
  std::vector<std::size_t> order(extents.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return extents[a].bytes > extents[b].bytes; });
  std::size_t total = 0;
  std::vector<std::pair<std::size_t, std::size_t>> taken;
  for (std::size_t n = 0; n < order.size(); ++n) {
    Extent& extent = extents[order[n]];
    taken.clear();
    for (std::size_t other = 0; other < n; ++other) {
      const Extent& o = extents[order[other]];
      if (meet(order[other], order[n])) taken.emplace_back(o.offset, o.offset + aligned(o.bytes));
    }
    std::sort(taken.begin(), taken.end());
    const std::size_t needed = aligned(extent.bytes);
    std::size_t end = 0, best = 0, best_gap = ~std::size_t{0};
    for (const auto& [from, to] : taken) {
      if (from >= end + needed && from - end < best_gap) {
        best = end;
        best_gap = from - end;
      }
      end = std::max(end, to);
    }
    extent.offset = best_gap == ~std::size_t{0} ? end : best;
    total = std::max(total, extent.offset + needed);
  }
  return total;
}

}  // namespace

std::size_t assign_offsets(std::span<Extent> extents, std::size_t alignment) {
  return place(extents, alignment, [&](std::size_t a, std::size_t b) {
    return extents[a].first <= extents[b].last && extents[b].first <= extents[a].last;
  });
}

std::size_t assign_offsets(std::span<Extent> extents, std::size_t alignment,
                           const std::function<bool(std::size_t, std::size_t)>& meet) {
  return place(extents, alignment, meet);
}

}  // namespace rewright::runtime
