// Which of two layouts each step of a plan computes in, by a minimum cut.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace rewright::cpu {

inline constexpr double kNoSuchKernel = std::numeric_limits<double>::infinity();

// Nanoseconds, and values by number. What a step reads and computes is in its layout.
struct LayoutStep {
  double plain = 0, channels_last = 0;  // one of them finite
  std::vector<int> reads, computes;
};

// True for the steps that compute with channels last, such that the sum of the steps' times in their layouts and of the changes
// is the least. `changes`: of each value, what changing its layout takes, which is done once, whoever reads it. A value is
// computed by one step at most; one that none computes is plain.
std::vector<bool> assign_layouts(std::span<const LayoutStep> steps, std::span<const double> changes);

// That sum; infinite where a step has no kernel for its layout.
double layout_cost(std::span<const LayoutStep> steps, std::span<const double> changes, const std::vector<bool>& channels_last);

}  // namespace rewright::cpu
