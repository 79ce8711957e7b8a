// The graph that a plan divides, and plans as several processes read them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "distribution/communicator.h"
#include "graph/graph.h"
#include "plans/groups/group_graph.h"
#include "plans/plan.h"
#include "runtime/training/graphs/training_graph.h"

namespace rewright::runtime {

struct PlannedGraph {
  Graph graph;
  // Outputs of a training step that replace its inputs (new weights and states): the output's number, and the input.
  std::vector<std::pair<std::size_t, ValueId>> replaced;
  std::vector<ValueId> data;        // given anew in each run: inputs and targets
  std::vector<ValueId> parameters;  // weights, as inputs or constants; in training statistics and states as well
  std::size_t trained = 0;          // as many of the first of these are weights that training moves
};

// A step of training, and not a run? Weights are then no constants.
inline bool is_step(const PlannedGraph& planned) { return !planned.replaced.empty(); }

// A model whose open sizes all stand for `batch`. Throws Error(kUsage) where there are some and none is given.
Graph with_batch(const Graph& model, std::optional<std::int64_t> batch);
PlannedGraph planned_for_inference(Graph sized);
// For the graph of a training step without the guard against infinite gradients (TrainingGraphOptions).
PlannedGraph planned_for_training(const training::TrainingGraphs& graphs);
// The graph that a plan divides, with what the plan computes again: of its groups that is within (plans::group_of).
PlannedGraph divided_by(const plans::Plan& plan, PlannedGraph planned);
// A strategy says how data and parameters are held; everything else is found.
struct PlanStrategy {
  enum class Data { kAny, kSamples, kWhole, kImages };  // kImages: along height or width
  std::string name;
  Data data = Data::kAny;
  bool whole_parameters = false;

  bool is_like(const PlanStrategy& other) const { return data == other.data && whole_parameters == other.whole_parameters; }
};
// Those that can be asked for by name: "auto" first, then in the order in which a search tries them. Some have two names.
const std::vector<PlanStrategy>& strategies();
// PartitionOptions::allowed of a strategy. `planned` must outlive it.
std::function<bool(ValueId, const plans::Holding&)> holdings_of(const std::string& strategy, const PlannedGraph& planned);

// The options of training whose step plans are made for.
training::TrainingGraphOptions planned_training(const std::string& loss, const std::string& update);

// Reads a plan in the first process for all. Throws Error(kBadInput) if it is for another number of processes than there are,
// or for another purpose than `purpose` ("inference" or "training"; empty: any).
plans::Plan read_plan_together(distribution::Communicator& processes, const std::string& file, const std::string& purpose);
// Proves the plan in the first process; of a pipeline with stale weights, that it does what its schedule says. Throws
// Error(kBadInput) in all processes if it is not proved, or of another graph.
void require_proved(const plans::Plan& plan, const PlannedGraph& planned, distribution::Communicator& processes,
                    const std::string& file);

// A group's graph of a plan of two levels, with data told from parameters.
PlannedGraph planned_group(const PlannedGraph& planned, const plans::GroupGraph& group);

}  // namespace rewright::runtime
