// Bounds of index expressions whose symbols are sizes, which are never negative:
//
//   n + 1 >= 1, n * m >= 0, n - min(n, 512) >= 0, n - n div 2 >= 0, n mod 8 <= 7
//
// Only for expressions over the sizes of a model: the symbols of a rule may stand for pads and axes, which may be negative.
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

// True if the condition holds for all sizes, false if for none; nullopt if it depends on the sizes or is not known.
std::optional<bool> decided_over_sizes(const Condition& condition);

// Minimum and maximum, reduced to one side where that is the smaller or larger one for all sizes.
Index min_over_sizes(const Index& a, const Index& b);
Index max_over_sizes(const Index& a, const Index& b);

}  // namespace rewright
