#include "runtime/cpu/planning/loop_choices.h"

#include "runtime/cpu/planning/measured_choices.h"

namespace rewright::cpu {

std::optional<LoopProgram> chosen_loops(const PlanOptions& options, const LoopProblem& problem) {
  if (options.loop_problems != nullptr) options.loop_problems->push_back(problem);
  if (options.choices == nullptr) return std::nullopt;
  const auto found = options.choices->found(problem.name());
  return found ? parse_loops(*found) : std::nullopt;
}

}  // namespace rewright::cpu
