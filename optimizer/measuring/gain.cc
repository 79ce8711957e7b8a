#include "optimizer/measuring/gain.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rewright::optimizer {

namespace {

constexpr double kLeastGain = 1.01;  // smaller gains may come from memory placement

// Geometric means over a graph's preparations, by round.
std::vector<double> rounds_of(const std::vector<std::vector<double>>& preparations) {
  std::vector<double> rounds;
  if (preparations.empty()) return rounds;
  for (std::size_t r = 0; r < preparations[0].size(); ++r) {
    double logarithm = 0;
    bool known = true;
    for (const std::vector<double>& times : preparations) {
      known = known && r < times.size() && times[r] > 0;
      if (known) logarithm += std::log(times[r]);
    }
    rounds.push_back(known ? std::exp(logarithm / static_cast<double>(preparations.size())) : 0);
  }
  return rounds;
}

// The gain from the rewritten graph's slowest preparation to the original's fastest one.
double least_gain(const FreshTimes& times) {
  double least = std::numeric_limits<double>::infinity();
  for (const std::vector<double>& before : times.before)
    for (const std::vector<double>& after : times.after) least = std::min(least, gain_of(before, after).speedup);
  return times.before.empty() || times.after.empty() ? 1 : least;
}

}  // namespace

double median(std::vector<double> numbers) {
  if (numbers.empty()) return 0;
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

Gain gain_of(std::span<const double> before, std::span<const double> after) {
  std::vector<double> ratios;
  std::size_t faster = 0;
  for (std::size_t i = 0; i < std::min(before.size(), after.size()); ++i) {
    if (after[i] <= 0 || before[i] <= 0) continue;
    ratios.push_back(before[i] / after[i]);
    if (ratios.back() > 1) ++faster;
  }
  Gain result;
  if (ratios.empty()) return result;
  // A sign test over the rounds, at three standard deviations, since single rounds may be disturbed.
  const auto n = static_cast<double>(ratios.size());
  result.speedup = median(ratios);
  result.significant = result.speedup >= kLeastGain && static_cast<double>(faster) >= std::min(n, n / 2 + 1.5 * std::sqrt(n));
  return result;
}

ConfirmedGain confirmed_gain(const FreshTimes& first, const FreshTimes& second) {
  const Gain a = gain_of(rounds_of(first.before), rounds_of(first.after));
  const Gain b = gain_of(rounds_of(second.before), rounds_of(second.after));
  ConfirmedGain result;
  result.speedup = std::min(a.speedup, b.speedup);
  const double mean = (a.speedup + b.speedup) / 2;
  result.holds = a.significant && b.significant && least_gain(first) > 1 && least_gain(second) > 1 &&
                 mean - 1 > std::abs(a.speedup - b.speedup);
  return result;
}

}  // namespace rewright::optimizer
