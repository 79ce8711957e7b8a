// Loops of generated code that searches have found, and groups to search them for.
#pragma once

#include <optional>
#include <vector>

#include "runtime/cpu/planning/plan.h"
#include "runtime/cpu/tile/loop_space.h"

namespace rewright::cpu {

// The loop program that was found for the group (PlanOptions::choices); nullopt: the estimate's. Adds the group to
// PlanOptions::loop_problems if they are asked for.
std::optional<LoopProgram> chosen_loops(const PlanOptions& options, const LoopProblem& problem);

struct FoundLoops {
  LoopProgram loops;
  double seconds = 0, estimated_seconds = 0;  // of a run with these, and with the estimate's
  int considered = 0, pruned = 0, measured = 0;
  bool is_start = true;  // no program was clearly faster than the one that the search began with
};

// Searches a group's loops: of the neighbours of the best program so far, those of the least predicted costs are measured,
// until none is faster or the time is over. nullopt: the group cannot be run alone. Calls the thread's checkpoint.
std::optional<FoundLoops> search_loops(const LoopProblem& problem, const LoopRates& rates, double seconds);

// Measures this machine's rates, in some milliseconds.
LoopRates measure_loop_rates(Isa isa);

// Searches the loops of all groups that are not known yet, each once, those with the largest predicted costs first, for at most
// some seconds in total (kLoopSearchSeconds), and keeps what is found, or that the estimate stays. False if all were known.
bool search_loops(std::vector<LoopProblem> problems, MeasuredChoices& choices);
inline constexpr double kLoopSearchSeconds = 20;

}  // namespace rewright::cpu
