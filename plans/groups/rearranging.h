// The time that computing takes beside the operators if a device's kernels have a layout of their own (channels last):
// values are changed to it and back where something else gives or reads them, and at the ends of pieces between exchanges
// (plans/execution/local_program.h); and parts of values are copied where a node needs a part of what each process has.
#pragma once

#include <map>
#include <vector>

#include "graph/graph.h"
#include "plans/groups/execution_order.h"
#include "plans/groups/group_graph.h"
#include "plans/machines/machine.h"
#include "plans/partition/partition.h"

namespace rewright::plans {

// By node: seconds of the changes and copies that it needs on one device. `exchanges` and `order` as the plan is executed. All
// 0 on a machine that says nothing of layouts (MachineDescription::layouts).
std::vector<double> rearranging_seconds(const Machine& machine, const Graph& graph, const Partition& partition,
                                        const PartitionOptions& options, const std::vector<PlannedExchange>& exchanges,
                                        const ExecutionOrder& order, const std::map<std::size_t, BetweenGroups>& between);

}  // namespace rewright::plans
