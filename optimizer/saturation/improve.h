// Equality saturation of a region: saturate, extract, see what the choice costs as a graph.
#pragma once

#include <optional>

#include "optimizer/costs/cost_model.h"
#include "optimizer/saturation/extraction.h"
#include "optimizer/saturation/saturation.h"

namespace rewright::optimizer {

struct ImproveOptions {
  SaturationOptions saturation;
  ExtractionOptions extraction;
  // Costs that were not measured yet are estimated; what was chosen by estimates is measured, and chosen anew, so many times.
  int rounds = 4;
};

struct Improvement {
  // Without a region; without rewrites if nothing cheaper was found. nullopt where a cost would have had to be measured and
  // could not be (CostModel::prepare).
  std::optional<CertificateStep> step;
  double seconds = 0;    // what the best graph costs
  double estimated = 0;  // what the extraction thought the first choice costs
  double bound = 0;      // what a choice costs at least, by the costs known in the end
  bool optimal = false;  // the extraction ended within its gap
  StopReason reason = StopReason::kDone;
  std::size_t nodes = 0;        // live e-nodes
  std::int64_t iterations = 0;  // of the simplex method
};

// The region's graph must be tidy.
Improvement improve(const Graph& region, const RuleIndex& rules, CostModel& costs, const ImproveOptions& options,
                    Limits& limits);

}  // namespace rewright::optimizer
