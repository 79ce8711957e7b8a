// The memory of a step, and what of its forward pass may be computed again in the backward pass, so that it need not be kept.
//
// A graph is looked at as a runtime executes it: reshapes share their operand's bytes, and an elementwise node whose only
// reader is elementwise is computed within that one. What is left are units, each of a few nodes. The nodes behind the loss are
// cut into stages; at the beginning of each, units of the forward pass may be computed again.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "optimizer/costs/cost_model.h"

namespace rewright::training {

// Nodes that are computed again before a node; by their positions in the graph, in the order of their execution.
struct Recomputation {
  std::int32_t before = 0;
  std::vector<std::int32_t> nodes;
};

struct RecomputationProblem {
  struct Unit {
    std::vector<std::int32_t> nodes;  // ascending
    double seconds = 0;
    bool repeatable = true;
    std::vector<int> reads, makes;  // values
  };
  struct Value {  // that a unit computes, and that is worth a decision
    ValueId id = kNoValue;
    double bytes = 0;
    int unit = 0;
    std::int32_t made = 0, last_in_forward = 0;  // positions
    std::vector<std::int32_t> last_in_stage;     // position of the last reader, or -1
    int last_stage = -1;                         // that may have a use for it; -1: none behind the loss
  };
  // A node, and what is in memory beside those values while it runs.
  struct Moment {
    std::int32_t position = 0;
    int stage = -1;  // -1: in the forward pass
    double fixed_bytes = 0;
  };
  std::vector<Unit> units;
  std::vector<Value> values;
  std::vector<Moment> moments;            // in the forward pass, and those of the stages that no earlier one outweighs
  std::vector<std::int32_t> stage_start;  // positions
  double seconds = 0;                     // of all nodes
  int stages() const { return static_cast<int>(stage_start.size()); }
};

// This graph with what the first output (the loss) is computed from in front, and every elementwise node that is computed
// within its reader right before it. `costs` go with the nodes, and are put into the new order.
Graph in_order_of_execution(const Graph& graph, std::vector<NodeCost>& costs);

// Of a graph in that order. Values below a 2000th of all bytes are always kept.
RecomputationProblem make_recomputation_problem(const Graph& graph, std::span<const NodeCost> costs, int stages);

// Bytes of the values of a graph in that order, by the planner that runtimes use (runtime/memory.h).
std::size_t planned_bytes(const Graph& graph, std::span<const NodeCost> costs);

// The graph with copies of nodes; readers behind a copy read the copy. What nothing reads any more is left out. Copies must
// not be merged again: Graph::tidy would.
Graph with_recomputations(const Graph& graph, std::span<const Recomputation> recomputations);

}  // namespace rewright::training
