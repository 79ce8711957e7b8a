// Assigns one of two layouts to each step of a plan, by a minimum cut.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace rewright::cpu {

inline constexpr double kNoSuchKernel = std::numeric_limits<double>::infinity();

// Times are in nanoseconds, values are numbered. A step reads and computes in its own layout.
struct LayoutStep {
  double plain = 0, channels_last = 0;  // at least one is finite
  std::vector<int> reads, computes;
};

// Returns true for the steps that compute channels-last, such that the total time of steps and layout conversions is minimal.
// `changes`: the time to convert each value, which is paid once for all readers. A value is computed by at most one step;
// values without one are row-major.
std::vector<bool> assign_layouts(std::span<const LayoutStep> steps, std::span<const double> changes);

// That total time; infinite if a step has no kernel for its layout.
double layout_cost(std::span<const LayoutStep> steps, std::span<const double> changes, const std::vector<bool>& channels_last);

}  // namespace rewright::cpu
