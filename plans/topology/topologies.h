// Networks of direct cables that nodes with so many ports can have, for a search of a network together with a plan
// (W. Wang et al., "TopoOpt: Co-optimizing Network Topology and Parallelization Strategy", NSDI 2023).
#pragma once

#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "plans/machines/network.h"

namespace rewright::plans {

struct Topology {
  std::string name;
  NetworkDescription network;  // of edges, but for fat trees
};

struct Ports {
  std::size_t nodes = 0;
  std::size_t each = 0;         // cables of a node
  double latency = 0;           // of a cable
  double bytes_per_second = 0;  // of a cable, in each direction
};

// Bytes of a step between nodes.
struct Traffic {
  std::vector<double> between;  // [from * nodes + to], of messages other than those around rings
  double around = 0;            // that each node sends on around rings
};

// Rings and tori of all dimensions that fit. Where a node has more cables than neighbours, several lie side by side, which
// counts as a cable of as many times the rate. Throws Error(kUsage) for fewer than 2 cables a node among more than 2 nodes.
std::vector<Topology> named_topologies(const Ports& ports);

// A fat tree of three levels that costs what the cables do, counted in ports: of a cable 2 (the node's, and that of the panel
// that joins cables), in the tree 6 for the same rate (one at the node, two at an edge switch, two at an aggregation switch and
// one at a core switch). So each node has a third of its cables' rate, and no two messages of different nodes meet.
Topology fat_tree_of_like_cost(const Ports& ports);

// One for each number of rings that ports allow: rings go so many nodes on at each step, by numbers without a common divisor
// with the nodes' that grow geometrically, which keeps routes short; the other ports join those that send each other most, by
// matchings, each of which halves what its pairs still have to send (TopoOpt's TotientPerms and matchings).
std::vector<Topology> topologies_for(const Traffic& traffic, const Ports& ports);

// Two cables of equal rates exchange an end each; the network itself where none can.
NetworkDescription with_exchanged_ends(const NetworkDescription& network, std::mt19937& random);
// Do cables lead from each node to each other?
bool is_connected(const NetworkDescription& network, std::size_t nodes);

}  // namespace rewright::plans
