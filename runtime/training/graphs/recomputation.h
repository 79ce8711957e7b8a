// The memory of a training step, and the values of the forward pass that may be recomputed in the backward pass instead of
// being kept.
//
// The graph is viewed as a runtime executes it: reshapes share their operand's memory, and an elementwise node whose only
// reader is elementwise is computed within that reader. The remaining units have a few nodes each. The nodes after the loss are
// divided into stages; at the beginning of each stage, units of the forward pass may be recomputed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/recomputation.h"
#include "optimizer/costs/cost_model.h"

namespace rewright::training {

struct RecomputationProblem {
  struct Unit {
    std::vector<std::int32_t> nodes;  // ascending
    double seconds = 0;
    bool repeatable = true;
    std::vector<int> reads, makes;  // values
  };
  struct Value {  // computed by a unit, and large enough to decide about
    ValueId id = kNoValue;
    double bytes = 0;
    int unit = 0;
    std::int32_t made = 0, last_in_forward = 0;  // positions
    std::vector<std::int32_t> last_in_stage;     // position of the last reader, or -1
    int last_stage = -1;                         // the last stage that may use it; -1: none after the loss
  };
  // A node, and the bytes of other values in memory while it runs.
  struct Moment {
    std::int32_t position = 0;
    int stage = -1;  // -1: in the forward pass
    double fixed_bytes = 0;
  };
  std::vector<Unit> units;
  std::vector<Value> values;
  std::vector<Moment> moments;            // in the forward pass; in a stage, those not dominated by an earlier one
  std::vector<std::int32_t> stage_start;  // positions
  double seconds = 0;                     // of all nodes
  int stages() const { return static_cast<int>(stage_start.size()); }
};

// The graph with the nodes of the first output (the loss) in front, and every elementwise node directly before the reader that
// computes it. `costs` are reordered with the nodes.
Graph in_order_of_execution(const Graph& graph, std::vector<NodeCost>& costs);

// For a graph in that order. Values below 1/2000 of all bytes are always kept.
RecomputationProblem make_recomputation_problem(const Graph& graph, std::span<const NodeCost> costs, int stages);

// The bytes that a graph in that order needs for its values, by the runtimes' memory planner (runtime/memory.h).
std::size_t planned_bytes(const Graph& graph, std::span<const NodeCost> costs);

}  // namespace rewright::training
