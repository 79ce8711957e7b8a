// Plans of two levels. The outer plan divides a graph among groups of processes; what one group computes is again a graph, of
// the same operators on the group's parts, which an inner plan divides among the group's processes. So samples may be cut
// between nodes, and layers inside of them.
//
// In a group's graph an exchange between the groups is a node of its own. It moves or adds elements that stand at the same
// place in every axis but those that it changes: it may be cut along each of the others, with every process of a group
// exchanging its part with those of the same number in the other groups. A sum over all processes so becomes a sum to parts
// within each group, sums of parts between the groups, and a gather within each, where that is fastest.
//
// All groups have the same graph: cuts into parts that are not alike (halos, pads, sizes that do not divide) are no cuts
// between groups.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "distribution/tensor_exchange.h"
#include "graph/graph.h"
#include "graph/recomputation.h"
#include "plans/partition/partition.h"

namespace rewright::plans {

// A node of a group's graph that exchanges between the groups.
struct BetweenGroups {
  Exchange exchange = Exchange::kNone;  // none: each group takes a part of what it has
  Holding from, to;                     // over the groups
  TensorType whole;                     // the value before it was divided
};

// The part of a tensor that each process, or each group, has.
struct Division {
  Sizes whole;
  TensorParts parts;
};

struct GroupGraph {
  Graph graph;
  std::vector<std::pair<std::size_t, ValueId>> replaced;  // see PartitionOptions
  std::map<std::size_t, BetweenGroups> exchanges;         // by position of the node
  std::vector<Division> inputs, outputs;                  // among the groups
};

// A group's graph in which nodes are computed again (graph/recomputation.h).
struct RecomputedGroup {
  GroupGraph group;
  std::vector<std::int32_t> of_node;
  std::vector<bool> again;
};
RecomputedGroup with_recomputations(const GroupGraph& group, std::span<const Recomputation> recomputations);

// Why the parts that a choice gives processes are not alike; empty where they are.
std::string why_not_alike(const NodeChoice& choice, std::int64_t processes);

// The graph that a group of a partition computes. Throws Error(kBadInput) with the node where groups are not alike.
GroupGraph group_graph(const Graph& graph, const Partition& partition, const PartitionOptions& options, std::size_t group);

// The ways to do an exchange between groups by the processes of each group, with their times: all of it in each process, or cut
// along an axis that the exchange does not change. `between`: the groups, and what a message between two of them takes.
std::vector<NodeChoice> choices_between(const BetweenGroups& exchange, const TensorType& result, std::int64_t processes,
                                        const PartitionOptions& between);

}  // namespace rewright::plans
