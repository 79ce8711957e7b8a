// Whether a rewritten graph is faster than the given one, by times taken in turn.
#pragma once

#include <span>
#include <vector>

namespace rewright::optimizer {

double median(std::vector<double> numbers);  // 0: of none

// The gain shown by the times of rounds; times at the same position are of the same round.
struct Gain {
  double speedup = 1;        // median of the rounds' ratios, before / after
  bool significant = false;  // beyond the noise of the rounds
};
Gain gain_of(std::span<const double> before, std::span<const double> after);

// One measurement in a process of its own: rounds of the given graph and of the rewritten one, each prepared once or twice.
struct FreshTimes {
  std::vector<std::vector<double>> before, after;
};

// The gain that two measurements, each in a process of its own, agree on. Where memory lies makes the same graph faster or
// slower by some percent from one process to the next, which no number of rounds in one process shows. It holds if in both
// the rounds tell it from noise, each preparation of the rewritten graph is faster than each of the given one, and the mean of
// the two gains is more than what they differ by.
struct ConfirmedGain {
  double speedup = 1;  // the lesser of the two
  bool holds = false;
};
ConfirmedGain confirmed_gain(const FreshTimes& first, const FreshTimes& second);

}  // namespace rewright::optimizer
