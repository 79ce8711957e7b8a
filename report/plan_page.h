// A plan as one page of HTML: which operator is cut how, and what each process does at which time of a simulated step. The page
// needs no network.
#pragma once

#include <string>

#include "plans/plan.h"
#include "plans/simulation/simulation.h"

namespace rewright::report {

struct PlanSource {
  const plans::Plan& plan;
  const Graph& graph;                   // whose nodes are cut last: the model's, or that of a group
  const plans::GroupGraph* group;       // of a plan of two levels, with `graph`; else null
  const plans::Simulation& simulation;  // of a step by this plan, that has run
  std::string facts;                    // the JSON of `plan --json`
};

// Throws Error(kMissing) if the graph cannot be laid out.
std::string plan_page(const PlanSource& source);

}  // namespace rewright::report
