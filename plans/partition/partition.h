// Dividing a graph among processes: for each node one of its choices, for each value that is given (inputs, weights) how it is
// held, so that computing and exchanging take the least time together.
//
// The choice is an integer program (L. Zheng et al., "Alpa", OSDI 2022, solve one like it over a list of sharded operators): a
// variable for each choice of a node and for each exchange between what is given and what is needed. Nodes of equal
// surroundings choose alike, so that a network of many equal layers is a small program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "plans/partition/choices.h"

namespace rewright::plans {

struct PartitionOptions {
  std::int64_t processes = 1;
  double latency = 0, seconds_per_byte = 0;                 // of a message between two processes
  double exchange_seconds = 0;                              // of each exchange beside its messages
  double all_to_all = 1;                                    // a byte of messages between all takes so many times as long
  distribution::PairLimits pairs = {};                      // which exchanges go in pairs
  double memory = std::numeric_limits<double>::infinity();  // bytes that a process may hold of given values
  // May a given value be held so? None: each may be whole or cut along any axis.
  std::function<bool(ValueId value, const Holding& holding)> allowed = {};
  // An output that takes the place of a given value after the step (a parameter that is updated) is held as that is: pairs of
  // the output's number and the given value. Other outputs are wanted whole.
  std::vector<std::pair<std::size_t, ValueId>> replaced = {};
  bool alike = false;  // each process's parts have the sizes of all others'; `choices` must have no others either
  // Weights of a second of computing and of exchanging: other numbers than 1 give bounds.
  double computing = 1, exchanging = 1;
  // Minimizes the longest one of computing, exchanging and chains of both (plans/partition/chains.h) in place of both together:
  // as if all else ran side by side. Its bound holds for all steps.
  bool overlapped = false;
  bool beside = true;          // and computing beside exchanging; false: the sum of both counts (Machine::exchanges_beside)
  double seconds = 60;         // for the search
  bool quick = false;          // only a good choice found in little time (plans/partition/labels.h), if there is one
  std::int64_t nodes = 20000;  // of branch and bound
  int seed = 0;
};

struct Partition {
  std::vector<NodeChoice> nodes;  // by position in the graph
  std::vector<Holding> given;     // by value; of computed ones without meaning
  // The order in which nodes are computed (plans/groups/execution_order.h); empty: level by level.
  std::vector<std::size_t> sequence;
  std::vector<bool> again;      // nodes that compute what others have computed before; empty: none
  double seconds = 0;           // computing and exchanging, one after the other
  double exchange_seconds = 0;  // of these
  double bound = 0;             // no partition of these choices takes less
  double given_bytes = 0;       // of one process
  bool proved_best = false;     // the bound is reached up to a ten-thousandth
  std::size_t classes = 0;      // of nodes that choose alike
  bool found = false;           // false: nothing fits, or
  bool timed_out = false;       // there was no time to go on
};

// Seconds that an exchange of so many bytes (exchanged_bytes) takes, by rings (Thakur, Rabenseifner and Gropp, 2005): (P - 1)
// messages of a P-th of the value for a gather or a reduction to parts, twice as many for an all-reduce. Those that go in
// pairs: as many bytes in log2(P) messages, or each of these for an all-reduce of the whole (distribution/tensor_exchange.h).
// The messages of an all-to-all are sent at once: (P - 1) of a P-th of a part. On equal links these are the simulated times of
// parts of equal sizes. Each exchange takes the options' exchange_seconds beside them.
double exchange_seconds(Exchange exchange, double bytes, const PartitionOptions& options);

// Ways in which a given value may be held.
std::vector<Holding> given_holdings(const TensorType& type, ValueId value, const PartitionOptions& options);

// Sets the times of nodes that are cut so.
Partition with_seconds(Partition partition, const Graph& graph, std::int64_t processes, const OperatorSeconds& seconds);

// Sizes are known. Every node's choices come from `choices`.
Partition partition(const Graph& graph, ChoiceFinder& choices, const PartitionOptions& options);

// An exchange of a partition: a value is needed in another distribution than it is computed in.
struct PlannedExchange {
  ValueId value = kNoValue;
  Holding from;
  Need to;
  Exchange exchange = Exchange::kNone;
  std::int32_t before = -1;  // the first node that needs it; -1: an output
};
// Throws Error(kBadInput) that names a node whose operand cannot be had as it needs it.
std::vector<PlannedExchange> exchanges_of(const Graph& graph, const Partition& partition, const PartitionOptions& options);

}  // namespace rewright::plans
