// A batch as micro-batches. They are a cut of the work like that among groups of processes (plans/groups/group_graph.h), but in
// time: what a group of such a plan computes is what is computed of one micro-batch, an all-reduce between groups the sum over
// all micro-batches, and an all-gather their results put together. So the proof of cuts holds for micro-batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "plans/groups/group_graph.h"
#include "plans/partition/choices.h"
#include "plans/partition/partition.h"

namespace rewright::plans {

// `data`: values that are given anew in each run. Those with as many rows as the first of them are cut along their first axis,
// all else that is given is whole; nodes follow, in the way that needs the fewest bytes of other micro-batches. `choices` are
// for as many processes as there are micro-batches, and have no others than alike ones (why_not_alike). Throws
// Error(kUsage) if the rows are no such number of equal parts.
Partition cut_into_micro_batches(const Graph& graph, const std::vector<ValueId>& data, std::int64_t micro_batches,
                                 ChoiceFinder& choices);

// When a node of a micro-batch's graph is computed.
enum class NodeRole : std::uint8_t {
  kBefore,    // once, from what is given for all micro-batches
  kForward,   // for each micro-batch: what the first output (training: the loss) needs; in inference all
  kBackward,  // for each micro-batch: all else
  kAfter,     // once, when all micro-batches have added what they have: sums, and what is computed from them
};

struct MicroBatchRoles {
  std::vector<NodeRole> nodes;  // by position
  // Empty, or why micro-batches cannot be computed one after the other: one needs sums over all of them. The roles then are
  // those with sums of its own in their place (a batch normalization with the statistics of the micro-batch).
  std::string barrier;
};

// `group`: of the partition into micro-batches.
MicroBatchRoles roles_of(const GroupGraph& group, bool for_training);

}  // namespace rewright::plans
