// The search for a pipeline: the batch as micro-batches, the model as stages, a schedule of the literature.
#pragma once

#include <string>

#include "runtime/planned/planner.h"

namespace rewright::runtime {

bool is_pipeline(const std::string& strategy);

// As find_plan. A schedule that reads stale weights, or a model whose samples read sums over the batch, gives a plan that is
// not proved, with the reason.
FoundPlan find_pipeline(const PlannedGraph& planned, const plans::Machine& machine, const PlanSearch& search);

void simulate_pipeline_plan(plans::Simulation& simulation, const plans::Plan& plan, const PlannedGraph& planned);

}  // namespace rewright::runtime
