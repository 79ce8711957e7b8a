// Chooses what to recompute in the backward pass, by integer programming.
//
// P. Jain et al., "Checkmate: Breaking the Memory Wall with Optimal Tensor Rematerialization", MLSys 2020. Their program has a
// stage for each node and grows quadratically. Here a stage is a section of the backward pass, only nodes of the forward pass
// are recomputed, and small values are always kept: a few thousand variables for networks of hundreds of nodes. It is exact
// except that everything recomputed in a stage counts as in memory simultaneously, and that gaps in the memory plan are
// ignored.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "distribution/communicator.h"
#include "runtime/session.h"
#include "runtime/training/graphs/recomputation.h"

namespace rewright::training {

struct RecomputationChoice {
  std::vector<Recomputation> recomputations;
  double peak_bytes = 0;          // according to the program
  double seconds = 0, least = 0;  // of recomputation: of this choice, and a lower bound for this budget
};

// The largest number of stages that the size of the program allows.
int stages_for(const Graph& graph, std::span<const NodeCost> costs);

// Minimizes the recomputation time within the budget; nullopt if nothing was found in `seconds`. Single-threaded, and
// deterministic unless time runs out.
std::optional<RecomputationChoice> choose_recomputations(const RecomputationProblem& problem, double budget, double seconds);
// The least memory found in `seconds`.
std::optional<RecomputationChoice> choose_least_memory(const RecomputationProblem& problem, double seconds);

struct Rematerialized {
  Graph graph;
  std::vector<Recomputation> recomputations = {};                  // for the graph in execution order; empty: unchanged
  std::size_t peak_before = 0, peak_bytes = 0;                     // according to `measure`
  double predicted_bytes = 0;                                      // according to the program
  double seconds = 0, seconds_again = 0, least_seconds_again = 0;  // by costs: graph, recomputation, lower bound of it
  std::size_t nodes_again = 0;
};

// An equivalent graph that needs at most `budget` bytes for its values according to `measure` (planned_bytes, or a backend's
// plan). `graph` is a step whose first output is the loss; `costs` are those of its nodes (CostModel::alone). Throws
// Error(kBadInput) with the least memory found if that is impossible. Takes at most about `seconds`.
Rematerialized rematerialize(const Graph& graph, std::vector<NodeCost> costs, std::size_t budget, double seconds,
                             const std::function<std::size_t(const Graph&)>& measure);

// The memory budget of a step's intermediate values in bytes; 0: unlimited.
struct MemoryBudget {
  std::size_t bytes = 0;
  double seconds = 30;  // for choosing
  // Costs of a graph's nodes; empty: by the roofline.
  std::function<std::vector<NodeCost>(const Graph&)> costs = {};
};

// As above with a backend's own plan. The first process chooses and the others follow; only it knows results other than the
// graph.
Rematerialized rematerialize(const Graph& graph, const MemoryBudget& budget, Communicator& processes, const Backend& backend,
                             const SessionOptions& options);

}  // namespace rewright::training
