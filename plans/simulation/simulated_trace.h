// A simulated step as a trace: a process for each device with a row for computing and one for exchanges, and one for the links
// with the messages on them. Arrows lead along the critical path.
#pragma once

#include <span>

#include "base/trace.h"
#include "plans/simulation/simulation.h"

namespace rewright::plans {

// `devices`: whose rows are drawn; none: all. Links of others are left out.
Trace simulated_trace(const Simulation& simulation, std::span<const std::uint32_t> devices = {});

}  // namespace rewright::plans
