// A simulation that is obviously right and slow: everything is computed anew at every event.
#pragma once

#include <map>
#include <vector>

#include "plans/machines/machine.h"
#include "plans/simulation/task_graph.h"

namespace rewright::testing {

struct SlowTimes {
  double start = -1, end = -1;
};

// Tasks by block. Times by name.
std::map<plans::TaskName, SlowTimes> simulate_slowly(const plans::Machine& machine,
                                                     const std::map<std::uint32_t, plans::Block>& blocks);

}  // namespace rewright::testing
