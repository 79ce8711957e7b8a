// The time of an exchange that has the links for itself, in closed form.
//
// A round takes as long as its slowest message: its latency, and its bytes at the rate that the round's messages leave each
// other on the links. A ring of P on equal links so takes (P-1) (alpha + beta |W|/P) for a reduce-scatter or an all-gather,
// twice that for an all-reduce: 2 (alpha (P-1) + beta (P-1)/P |W|), where alpha counts the messages that wait for each other.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "plans/machines/machine.h"
#include "plans/simulation/schedule.h"
#include "plans/simulation/task_graph.h"

namespace rewright::plans {

// A collective that several groups of devices do at the same time: equally many in each, and none in two of them.
struct Collective {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  std::vector<Devices> groups = {};  // member m of a group is its device number m
  double bytes = 0;                  // see CollectiveKind
  distribution::AllReduce how = {distribution::AllReduceStrategy::kRing};
  std::vector<MemberRing> rings = {};  // of each group's members; none: one in their order
};

// The machine's rings for these groups, if each has equally many members on every node, in the order of the nodes.
std::vector<MemberRing> rings_of(const Machine& machine, const std::vector<Devices>& groups);

struct ExchangePrice {
  double latency = 0, bytes = 0;                            // of the slowest messages of all rounds together
  double bytes_per_second = 0;                              // of these messages on their way; 0 without any
  double seconds = 0;                                       // latency + bytes / bytes_per_second
  std::vector<LinkUse> uses = {};                           // by link; on the average over the time
  std::vector<std::pair<std::uint32_t, double>> sent = {};  // bytes by device
  // All messages of a round take equally long, and each member takes part in each round: then the price holds for each member.
  // Otherwise it holds for the last one to end, where links that share messages are the slowest, and others may end earlier.
  bool is_exact = true;
};

ExchangePrice price(const Machine& machine, const Collective& collective);
// Messages between devices in rounds.
ExchangePrice price(const Machine& machine, const Schedule& schedule);

// The all-reduces of groups that exchange at the same time that are fastest in pairs, by their prices: up to some size by the
// whole tensor, up to another by halves; longer ones around a ring.
distribution::PairLimits fastest_pairs(const Machine& machine, const std::vector<Devices>& groups);

// A collective's rounds between devices: those of all groups side by side.
Schedule device_schedule(const Collective& collective);

}  // namespace rewright::plans
