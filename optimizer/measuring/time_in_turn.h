// Several things timed against each other while a machine's speed drifts.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "optimizer/devices/device.h"

namespace rewright::optimizer {

// All of them once a round, every other round in reverse order, for as long as the options say: by the clock, seconds for each,
// those of one round at the same position. Throws Error(kCancelled) when the options' token says so.
std::vector<std::vector<double>> time_in_turn(std::span<const std::function<void()>> works,
                                              const std::function<double()>& clock, const TimingOptions& options);

}  // namespace rewright::optimizer
