// Measures device profiles.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <stop_token>
#include <vector>

#include "graph/graph.h"
#include "optimizer/costs/database.h"
#include "optimizer/devices/device_profile.h"

namespace rewright::optimizer {

struct MeasureProfileOptions {
  std::function<void(std::size_t done, std::size_t all)> progress;
  std::stop_token cancel;  // throws Error(kCancelled); measurements so far are in the database
};

// Measures a device: its rates, operators on a grid of sizes, and the operators of the given graphs (open sizes are 1). Times
// in the database are not measured again; with `known`, all of the database's times for this device become part of the profile.
DeviceProfile measure_profile(Device& device, CostDatabase& database, std::span<const Graph> graphs, bool known,
                              const MeasureProfileOptions& options);

// Measures the operators of these graphs alone, and none that are known. The profile's rates are those given.
DeviceProfile measure_operators(Device& device, const Roofline& rates, std::span<const Graph> graphs,
                                const MeasureProfileOptions& options);

// The grid: graphs of one operator each. Operators without parameters are listed from the registry.
std::vector<Graph> profile_grid();

}  // namespace rewright::optimizer
