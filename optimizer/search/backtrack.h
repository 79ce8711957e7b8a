// Backtracking in one region (as in TASO, SOSP'19): graphs are expanded in order of their cost, by every rule that fits; those
// that cost more than the threshold allows, or were seen before (constants aside), are dropped.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "optimizer/costs/cost_model.h"
#include "optimizer/limits/limits.h"
#include "optimizer/matching/match.h"
#include "optimizer/matching/steps.h"

namespace rewright::optimizer {

struct BacktrackOptions {
  // How much more than the best one found a graph may cost: the larger of these, the second times what the region costs.
  double slack = 0, region_slack = 0;
  std::size_t patience = 24;      // it ends after so many graphs were expanded without gain
  std::size_t max_graphs = 4000;  // that are kept
};

struct Backtracking {
  // From the region's graph to the best one found; empty if nothing is better. nullopt where a cost would have had to be
  // measured and could not be (CostModel::prepare).
  std::optional<std::vector<Rewrite>> rewrites;
  std::size_t graphs = 0;  // that were made
};

Backtracking backtrack(const Graph& region, const RuleIndex& rules, CostModel& costs, const BacktrackOptions& options,
                       Limits& limits);

}  // namespace rewright::optimizer
