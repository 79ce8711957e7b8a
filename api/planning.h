// Plans requested by the command line or another language. Every option has a name, and its value is a text.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "api/request_options.h"
#include "plans/plan.h"
#include "runtime/planned/planner.h"

namespace rewright::api {

struct PlanRequest {
  std::string machine;         // its file (docs/plans.md)
  std::int64_t batch = 0;      // what the model's open sizes stand for; 0: it has none
  bool for_training = true;    // else for inference
  std::size_t cables = 0;      // of each node, whose network is found, too; 0: the machine's
  std::string found_machine;   // the file of the machine with that network; empty: none
  runtime::PlanSearch search;  // strategy, groups and time
  std::string loss = "softmax-cross-entropy", optimizer = "adam";
  std::string trace, report;  // files for the simulated step and for the page (report/plan_page.h); empty: none
};

// The options of `rewright plan`, without the dashes, but for those about files of plans.
using PlanOption = RequestOption<PlanRequest>;
std::span<const PlanOption> plan_options();

struct MadePlan {
  plans::Plan plan;   // proved, if its facts say so
  std::string text;   // the file's content
  std::string facts;  // the JSON report of the command line
};

// `rewright plan` without reading the model and writing the plan, which is called `output` in the facts. Procedures become
// graphs of operators. Throws Error as find_plan does, and for files that are missing or bad.
MadePlan make_plan(const Graph& model, const std::string& name, const PlanRequest& request, const std::string& output);

struct CheckedPlan {
  plans::Plan plan;
  plans::PlanCheck check;
};
// Does the plan compute what the model computes? Throws Error(kBadInput) if it is for another model.
CheckedPlan check_plan(const Graph& model, const std::string& name, const std::string& file);

}  // namespace rewright::api
