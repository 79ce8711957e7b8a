// The search for a plan: strategies by name, each an integer program whose best plan is simulated; then changes at random of
// the best one.
//
//   const FoundPlan found = find_plan(planned_graph, machine, {.strategy = "auto"});
//   write_file("model.plan", write_plan(found.plan, planned_graph.graph, planned_graph.replaced));
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "plans/groups/refine.h"
#include "plans/machines/machine.h"
#include "plans/simulation/simulation.h"
#include "runtime/planned/plan_choices.h"
#include "runtime/planned/planned_graph.h"

namespace rewright::runtime {

struct PlanSearch {
  // One of strategies(), or two of them for two levels: "data+tensor" cuts samples between groups, and layers within. Or
  // "pipeline:NAME", one of plans::schedule_names(); "pipeline" is the best of those that compute what one process computes.
  std::string strategy = "auto";
  std::size_t groups = 0;         // of two levels; 0: the machine's nodes
  std::size_t stages = 0;         // of a pipeline: the processes; 0: the machine's devices
  std::size_t micro_batches = 0;  // of a pipeline; 0: the most that divide the batch, up to 4 for each process
  bool alone = false;             // pipelines are compared by a step that begins when the one before is done everywhere
  double seconds = 120;           // for the search
  unsigned seed = 0;              // of changes at random (plans/groups/refine.h)
  std::size_t moves = 300;        // of them
  std::size_t most_plans = plans::RefineLimits().most_plans;  // a graph that has no more has each of them tried
};

struct FoundPlan {
  plans::Plan plan;  // proved, but for some pipelines
  bool proved = true;
  std::string reason;                        // where it is not proved
  std::map<std::string, double> strategies;  // seconds of a step by each that was tried and fits
  std::vector<plans::Plan> tried;            // not proved; on another network one of them may be the best
  std::size_t rules = 0;                     // that the proof needs
  double search_seconds = 0, proof_seconds = 0;
  bool timed_out = false;
};

// Throws Error(kUsage) for a strategy that there is not, Error(kMissing) if nothing fits into the machine's memory, and
// Error(kUnsupported) if the plan is not proved.
FoundPlan find_plan(const PlannedGraph& planned, const plans::Machine& machine, const PlanSearch& search);
// With choices whose cuts may not be proved yet. Where the best plan's are not, the best plan is taken that was found before it
// and is proved, or one by a search in what is left of the budget, in which each cut is proved before it is tried.
FoundPlan find_plan(const PlannedGraph& planned, const plans::Machine& machine, const PlanSearch& search,
                    PlanChoices& proposed);
// The two parts of it, for several machines with the same devices: the plan is not proved yet, unless it is a pipeline.
FoundPlan search_plan(const PlannedGraph& planned, const plans::Machine& machine, const PlanSearch& search,
                      PlanChoices& choices);
void prove_plan(FoundPlan& found, const PlannedGraph& planned);

}  // namespace rewright::runtime
