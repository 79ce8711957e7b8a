// Times several alternatives alternately, while a machine's speed drifts.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "optimizer/devices/device.h"

namespace rewright::optimizer {

// Runs all of them once a round, every other round in reverse order, for as long as the options say. Returns wall-clock seconds
// for each; times with the same index belong to one round. Throws Error(kCancelled) if the options' token requests it.
std::vector<std::vector<double>> time_in_turn(std::span<const std::function<void()>> works,
                                              const std::function<double()>& clock, const TimingOptions& options);

}  // namespace rewright::optimizer
