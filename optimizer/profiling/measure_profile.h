// Measures what a device profile holds.
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
  std::stop_token cancel;  // throws Error(kCancelled); what was measured is in the database
};

// Measures a device: its rates, operators over a grid of sizes, and the operators of the given graphs (open sizes taken as 1).
// What the database has of it is not measured again; with `known`, all that it has of this device becomes part of the profile.
DeviceProfile measure_profile(Device& device, CostDatabase& database, std::span<const Graph> graphs, bool known,
                              const MeasureProfileOptions& options);

// The grid: graphs of one operator each. Operators without parameters are taken from the registry, as they are.
std::vector<Graph> profile_grid();

}  // namespace rewright::optimizer
