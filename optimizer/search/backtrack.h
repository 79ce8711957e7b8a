// Backtracking in one region (as in TASO, SOSP'19): expands graphs in order of cost by every matching rule, and drops graphs
// above the cost threshold, or seen before (up to constants).
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
  // How much more than the best one a graph may cost: the larger of `slack`, and `region_slack` times the region's cost.
  double slack = 0, region_slack = 0;
  std::size_t patience = 24;      // ends after this many expansions without gain
  std::size_t max_graphs = 4000;  // graphs kept
};

struct Backtracking {
  // From the region's graph to the best one; empty if none is better. nullopt if a cost could not be measured
  // (CostModel::prepare).
  std::optional<std::vector<Rewrite>> rewrites;
  std::size_t graphs = 0;  // graphs created
};

Backtracking backtrack(const Graph& region, const RuleIndex& rules, CostModel& costs, const BacktrackOptions& options,
                       Limits& limits);

}  // namespace rewright::optimizer
