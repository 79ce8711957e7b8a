// Choosing what is computed again in the backward pass, by integer programming.
//
// P. Jain et al., "Checkmate: Breaking the Memory Wall with Optimal Tensor Rematerialization", MLSys 2020. Their program has a
// stage for each node, and grows with the square of their number. Here a stage is a stretch of the backward pass, only nodes of
// the forward pass are computed again, and small values are always kept: a few thousand variables for networks of hundreds of
// nodes. It is exact but for two things: all that is computed again in a stage counts as in memory at the same time, and
// holes that a planner of memory leaves do not count.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "distribution/communicator.h"
#include "runtime/session.h"
#include "runtime/training/graphs/recomputation.h"

namespace rewright::training {

struct RecomputationChoice {
  std::vector<Recomputation> recomputations;
  double peak_bytes = 0;          // by the program's count
  double seconds = 0, least = 0;  // of what is computed again, and at least of any choice with this budget
};

// The least time that keeps to the budget; nothing if none was found in `seconds`. One thread, and the same choice each time
// unless time ends first.
std::optional<RecomputationChoice> choose_recomputations(const RecomputationProblem& problem, double budget, double seconds);
// The least memory that was found in `seconds`.
std::optional<RecomputationChoice> choose_least_memory(const RecomputationProblem& problem, double seconds);

struct Rematerialized {
  Graph graph;
  std::vector<Recomputation> recomputations = {};  // of the graph in its order of execution; none: it is as it was
  std::size_t peak_before = 0, peak_bytes = 0;     // as `measure` says
  double predicted_bytes = 0;                      // by the program's count
  double seconds = 0, seconds_again = 0, least_seconds_again = 0;  // by the costs: of the graph, and of what is computed again
  std::size_t nodes_again = 0;
};

// A graph that computes the same and needs at most `budget` bytes for its values, as `measure` says of it (planned_bytes, or a
// backend's plan). `graph` is a step whose first output is the loss; `costs` are of its nodes (CostModel::alone). Throws
// Error(kBadInput) with the least that was found if it cannot be done. Takes about so many seconds at most.
Rematerialized rematerialize(const Graph& graph, std::vector<NodeCost> costs, std::size_t budget, double seconds,
                             const std::function<std::size_t(const Graph&)>& measure);

// How much memory a step may take for its intermediate values, in bytes; 0: any.
struct MemoryBudget {
  std::size_t bytes = 0;
  double seconds = 30;  // for choosing
  // Of the nodes of a graph; none: by the roofline.
  std::function<std::vector<NodeCost>(const Graph&)> costs = {};
};

// The same for a backend's own plan. The first process chooses, and all others do as it does; what it needs no graph for is
// known to it alone.
Rematerialized rematerialize(const Graph& graph, const MemoryBudget& budget, Communicator& processes, const Backend& backend,
                             const SessionOptions& options);

}  // namespace rewright::training
