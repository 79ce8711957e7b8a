// Plans, and partitions that may become plans, in the simulator.
#pragma once

#include "plans/groups/group_graph.h"
#include "plans/partition/partition.h"
#include "plans/plan.h"
#include "plans/simulation/simulation.h"
#include "runtime/planned/planned_graph.h"

namespace rewright::runtime {

// Runs a step of a partition. `group`: it divides what one of `groups` groups computes; null: there are none.
void simulate_partition(plans::Simulation& simulation, const Graph& graph, const plans::Partition& partition,
                        const plans::PartitionOptions& options, const plans::GroupGraph* group, std::size_t groups,
                        const distribution::PairLimits& pairs_between);

// The results of a simulation that was run.
plans::PlanPrediction prediction_of(plans::Simulation& simulation);

// Runs a step as the plan says on a machine of as many devices. `planned`: the graph that it divides (divided_by).
void simulate_plan(plans::Simulation& simulation, const plans::Plan& plan, const PlannedGraph& planned);

}  // namespace rewright::runtime
