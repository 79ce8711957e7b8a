// Costs of an e-graph's e-nodes.
#pragma once

#include "optimizer/costs/cost_model.h"
#include "optimizer/saturation/extraction.h"

namespace rewright::optimizer {

// The costs of e-nodes alone, and what fusing them saves: as CostModel::cost counts a graph, so that a choice costs what its
// graph costs. Activations are grouped as they are in the graph that the e-graph began as. Nothing is measured.
ExtractionProblem make_problem(const EGraph& graph, CostModel& costs, bool for_training);

}  // namespace rewright::optimizer
