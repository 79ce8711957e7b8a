// Is a rewritten graph faster than the original, according to alternating measurements?
#pragma once

#include <span>
#include <vector>

namespace rewright::optimizer {

double median(std::vector<double> numbers);  // 0: of none

// Where a graph is timed at several sizes, it may be so much slower at one of them and still be faster in the mean of all.
inline constexpr double kLeastAtAnySizes = 0.98;

// The gain shown by the times of rounds; times at the same position are of the same round.
struct Gain {
  double speedup = 1;        // median of the rounds' ratios, before / after
  bool significant = false;  // beyond the noise of the rounds
};
Gain gain_of(std::span<const double> before, std::span<const double> after);

// A measurement in a process of its own: rounds of the original and the rewritten graph, each prepared once or twice.
struct FreshTimes {
  std::vector<std::vector<double>> before, after;
};

// The gain confirmed by two measurements in processes of their own. Memory placement changes a graph's speed by some percent
// from process to process, which no number of rounds in one process shows. The gain holds if in both measurements it exceeds
// the noise of the rounds, each preparation of the rewritten graph is faster than each of the original, and the mean gain is
// larger than the difference between the two.
struct ConfirmedGain {
  double speedup = 1;  // the smaller of the two
  bool holds = false;
};
ConfirmedGain confirmed_gain(const FreshTimes& first, const FreshTimes& second);

}  // namespace rewright::optimizer
