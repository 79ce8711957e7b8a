// What is known of an index expression without numbers for its symbols, where all of them are sizes: none is negative.
//
//   n + 1 >= 1, n * m >= 0, n - min(n, 512) >= 0, n - n div 2 >= 0, n mod 8 <= 7
//
// Only for expressions over the sizes of a model. A rule's symbols may stand for pads and axes, which may be negative.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "expressions/index.h"

namespace rewright {

// Bounds that hold for all sizes, both included.
struct Bounds {
  static constexpr std::int64_t kNoLow = std::numeric_limits<std::int64_t>::min();
  static constexpr std::int64_t kNoHigh = std::numeric_limits<std::int64_t>::max();
  std::int64_t low = kNoLow, high = kNoHigh;
  friend bool operator==(const Bounds&, const Bounds&) = default;
};
Bounds bounds_over_sizes(const Index& index);

// Does it hold for all sizes, or for none? nullopt: for some, or it is not known.
std::optional<bool> decided_over_sizes(const Condition& condition);

// Minimum and maximum, without the side that is never taken.
Index min_over_sizes(const Index& a, const Index& b);
Index max_over_sizes(const Index& a, const Index& b);

}  // namespace rewright
