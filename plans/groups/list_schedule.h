// An order of a step's nodes in which computing seldom waits for exchanges: list scheduling. Of the nodes whose operands are
// there the first one of the graph is computed next; if there is none, that whose operands come first. Exchanges go one after
// another beside it, each when its value is computed. So updates of weights stand in the midst of the backward pass, as soon as
// their sums are there, and what is exchanged behind them does not wait for the end of the step.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "graph/graph.h"
#include "plans/groups/group_graph.h"
#include "plans/partition/partition.h"

namespace rewright::plans {

// For Partition::sequence. Seconds are those of the partition's choices, and of `options` for exchanges.
std::vector<std::size_t> list_schedule(const Graph& graph, const Partition& partition,
                                       const std::vector<PlannedExchange>& exchanges, const PartitionOptions& options,
                                       const std::map<std::size_t, BetweenGroups>& between);

}  // namespace rewright::plans
