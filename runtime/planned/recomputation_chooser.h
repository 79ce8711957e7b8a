// Chooses what the processes of a plan compute again in the backward pass in place of keeping it, as training in one process
// does (runtime/training/graphs/rematerialization.h), by the parts of values that a process has.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plans/groups/group_graph.h"
#include "runtime/training/graphs/rematerialization.h"

namespace rewright::runtime {

// Chooses what to compute again in a divided step of training. As in the simulation, each result of a node counts as memory.
class RecomputationChooser {
 public:
  // The first output is the loss.
  RecomputationChooser(const Graph& graph, const plans::Partition& partition, std::int64_t processes);

  // The most bytes of values that a process computes and keeps at one time, if nothing is computed again.
  double bytes() const;
  // With as little computed again as was found in this time; none: nothing takes so few bytes.
  std::optional<std::vector<Recomputation>> choose(double bytes, double seconds) const;
  // With the least memory that was found.
  std::optional<std::vector<Recomputation>> choose_least(double seconds) const;

 private:
  void find_order();
  std::optional<std::vector<Recomputation>> in_given_order(std::optional<training::RecomputationChoice> choice) const;

  Graph graph_;                      // with the types of parts
  std::vector<std::int32_t> order_;  // positions in the given graph: the nodes of the loss in front
  training::RecomputationProblem problem_;
};

// Copies are cut as what they are copies of.
plans::Partition with_copies(const plans::Partition& partition, const plans::RecomputedGroup& again);

}  // namespace rewright::runtime
