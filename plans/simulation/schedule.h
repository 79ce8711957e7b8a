// The messages of a collective among the processes of a group, round by round, as distribution/ does it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/namespaces.h"
#include "distribution/all_reduce.h"
#include "distribution/tensor_exchange.h"

namespace rewright::plans {

enum class CollectiveKind {
  kAllReduce,  // `bytes`: of the vector in each process; by the strategy, "engine" as a ring (MPI's and NCCL's for long ones)
  // `bytes`: of the vector that each process adds; around a ring, or by recursive halving where the strategy is one of pairs
  // and their number a power of 2
  kReduceScatter,
  kReduceInOrder,  // the same in the order of the ranks: each process sends its parts to all others at once
  kAllGather,      // `bytes`: of the result; around a ring, or by recursive doubling
  kAllToAll,       // `bytes`: of what a process holds, of which it sends a part to each other at once
  kBroadcast,      // `bytes`: of what process 0 sends along a binomial tree
};

// Tensor exchanges as they are simulated (distribution/tensor_exchange.h); messages that are sent all at once as a ring.
distribution::AllReduceStrategy strategy_of(distribution::ExchangeWay way);

// Between members of a group, numbered from 0.
struct Message {
  std::uint32_t from = 0, to = 0;
  double bytes = 0;
};

// Rounds that are alike. A member takes part in a round when it has sent and received all of its messages of earlier rounds.
struct Phase {
  std::vector<Message> messages;  // at the same time
  std::size_t rounds = 1;
};

using Schedule = std::vector<Phase>;

// A ring over the members of a group, which carries this share of a vector.
struct MemberRing {
  std::vector<std::uint32_t> order;  // every member once
  double share = 1;
  // So many that follow each other are on one node. A vector is reduced within nodes first and gathered there last, in rings of
  // a node's members; between, each member goes around those of its place on the other nodes with its part.
  std::size_t on_node = 1;
};

// `rings`: those that share the vector of a collective around a ring; none: one in the members' order.
// Vectors are cut into equal parts, as if bytes could be. One process sends nothing. `node`: the strategy "hierarchical" needs
// the number of consecutive members on a node.
Schedule make_schedule(CollectiveKind kind, distribution::AllReduce how, std::size_t processes, double bytes,
                       std::span<const MemberRing> rings = {});

}  // namespace rewright::plans
