// The order in which each process of a plan computes nodes and exchanges values. The simulation and the programs of processes
// (plans/execution/local_program.h) both follow it.
//
// A node's level is the number of exchanges in a row before it. Processes compute level by level, so that as much as can be is
// computed beside an exchange, and within a level in the order of the graph. A second queue exchanges, in the order in which
// the values are computed: exchanges in a row of one value follow each other. Given values are exchanged a level before the
// first one that reads them.
//
// A partition may give the order itself (Partition::sequence, list_schedule.h): then a level ends where a node needs an
// exchange that cannot be done before. Else nodes that are computed again are of the level that reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "graph/graph.h"
#include "plans/groups/group_graph.h"
#include "plans/partition/partition.h"

namespace rewright::plans {

struct ExecutionOrder {
  // The level of each node that computes; for one that exchanges between groups, the level at which its operand is there.
  std::vector<int> node_level;
  std::vector<int> value_level;  // of given values -1; of what was exchanged between groups, the level at which it can be read
  std::vector<std::size_t> nodes;  // those that compute, in order
  struct Step {
    bool between_groups = false;
    std::size_t number = 0;  // of the node between groups, or in the list of exchanges
    std::size_t after = 0;   // so many of `nodes` come before it in every process
  };
  std::vector<Step> exchanges;  // in order
};

// `exchanges`: those of exchanges_of() for the partition. `between`: nodes that exchange between groups. Throws
// Error(kBadInput) for a sequence that does not have each node once, behind what it reads.
ExecutionOrder execution_order(const Graph& graph, const Partition& partition, const std::vector<PlannedExchange>& exchanges,
                               const std::map<std::size_t, BetweenGroups>& between);

}  // namespace rewright::plans
