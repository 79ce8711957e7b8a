// Equality saturation of a region: saturates, extracts, and measures the cost of the choice as a graph.
#pragma once

#include <optional>

#include "optimizer/costs/cost_model.h"
#include "optimizer/saturation/extraction.h"
#include "optimizer/saturation/saturation.h"

namespace rewright::optimizer {

struct ImproveOptions {
  SaturationOptions saturation;
  ExtractionOptions extraction;
  // Unmeasured costs are estimated. A choice made by estimates is measured, and extraction repeated, at most this many times.
  int rounds = 4;
};

struct Improvement {
  // Without a region; without rewrites if nothing cheaper was found. nullopt if a cost could not be measured
  // (CostModel::prepare).
  std::optional<CertificateStep> step;
  double seconds = 0;    // cost of the best graph
  double estimated = 0;  // the first choice's cost according to the extraction
  double bound = 0;      // lower bound on a choice's cost, by the final costs
  bool optimal = false;  // the extraction reached its gap
  StopReason reason = StopReason::kDone;
  std::size_t nodes = 0;        // live e-nodes
  std::int64_t iterations = 0;  // of the simplex method
};

// The region's graph must be tidy.
Improvement improve(const Graph& region, const RuleIndex& rules, CostModel& costs, const ImproveOptions& options,
                    Limits& limits);

}  // namespace rewright::optimizer
