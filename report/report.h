// An optimization as one page of HTML, to look at: graphs side by side, rewrites with their rules and what they gained, where
// the time goes, memory over time, the search's way. It needs no network.
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
  // Seconds since the search began, and what was predicted then of the best graph, in seconds; ascending.
  std::vector<std::pair<double, double>> curve;
  std::string facts;  // what `optimize --json` says, as JSON
};

// The device and the database are asked for what operators cost; the evaluator does the rewrites again. Throws Error(kMissing)
// if graphs cannot be laid out.
std::string report_page(const ReportSource& source, Device& device, CostDatabase* database, Evaluator& evaluator);

// Of the library that the page carries: "5.16.0".
std::string d3_version();

}  // namespace rewright::report
