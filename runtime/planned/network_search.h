// The search for a network of direct cables together with a plan, in turn: the plan's traffic proposes networks, the network's
// links a plan (W. Wang et al., "TopoOpt", NSDI 2023).
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "plans/machines/machine.h"
#include "runtime/planned/planner.h"

namespace rewright::runtime {

constexpr std::size_t kMostNodesJoined = 256;

struct FoundNetwork {
  plans::MachineDescription machine;  // with the network, and collectives around all of its rings
  std::string name;                   // of its kind: "torus 4x4", "rings +1 +5, 2 matchings", "fat tree of like cost", ...
  FoundPlan plan;
  std::map<std::string, double> networks;  // seconds of a step on each that a plan was searched for
  std::size_t turns = 0;                   // from the traffic to a network and to a plan
};

// For the machine's nodes, each with so many cables of the cluster's latency and rate; the cluster's shape does not count. It
// is as good as the best ring or torus of these cables, and as a fat tree of like cost, with the plans found, by simulation:
// messages between nodes that are not joined pass other nodes, which forward them at no cost but the links' (as TopoOpt's
// servers do). Where the fat tree is best, it is the network. Throws Error(kUsage) for
// machines of one node, for clusters given by edges, and for fewer than 2 cables; else as find_plan. The same for the same seed
// unless time runs out.
FoundNetwork find_network(const PlannedGraph& planned, const plans::Machine& machine, std::size_t cables,
                          const PlanSearch& search);

}  // namespace rewright::runtime
