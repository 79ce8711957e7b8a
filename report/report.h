// The report of an optimization as one page of HTML: graphs side by side, rewrites with their rules and gains, times of nodes,
// memory over time, the course of the search. The page needs no network.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "optimizer/optimize.h"

namespace rewright::report {

struct ReportSource {
  const Graph& before;  // as it was imported
  const OptimizeResult& result;
  const std::vector<Rule>& rules;
  const OptimizeOptions& options;
  // Seconds since the search began, and the predicted time of the best graph then, in seconds; ascending.
  std::vector<std::pair<double, double>> curve;
  std::string facts;  // the JSON of `optimize --json`
};

// The device and the database give the costs of operators; the evaluator serves to replay the rewrites. Throws Error(kMissing)
// if graphs cannot be laid out.
std::string report_page(const ReportSource& source, Device& device, CostDatabase* database, Evaluator& evaluator);

// The version of the library in the page: "5.16.0".
std::string d3_version();

}  // namespace rewright::report
