// Costs of an e-graph's e-nodes.
#pragma once

#include "optimizer/costs/cost_model.h"
#include "optimizer/saturation/extraction.h"

namespace rewright::optimizer {

// The costs of e-nodes alone, and the savings of fusing them, consistent with CostModel::cost, so that a choice costs what its
// graph costs. Activations are grouped as in the original graph. Nothing is measured.
ExtractionProblem make_problem(const EGraph& graph, CostModel& costs, bool for_training);

}  // namespace rewright::optimizer
