// Chooses how each step of a plan runs: by recorded choices, or by measuring which is fastest.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cuda/running/step_starter.h"

namespace rewright::cuda {

inline constexpr int kChoosingRuns = 5;  // measurements for each alternative

class Chooser {
 public:
  // Measuring overwrites the plan's buffers.
  Chooser(std::shared_ptr<Driver> driver, const Plan& plan, PlanMemory& memory, const StepStarter& starter,
          const CudaOptions& options)
      : driver_(std::move(driver)), plan_(plan), memory_(memory), starter_(starter), options_(options) {}

  // Returns a choice for each step of the plan. Afterwards workspaces are large enough to run each step in stream 0 or in its
  // own stream. Throws Error(kUnsupported) for a step that nothing computes.
  std::vector<Choice> choose();

 private:
  // nullopt if nothing computes the step.
  std::optional<Choice> choose(const Step& step);
  std::optional<Choice> choose_operation(const LibraryStep& step);
  std::optional<Choice> choose_alternative(const Step& step);
  std::optional<Choice> fastest_alternative(const Step& step);
  std::optional<Choice> take_alternative(const EitherStep& step, std::size_t number);
  void reserve_workspaces(const std::vector<Choice>& choices);
  void reserve_workspace(const Step& step, const Choice& choice, std::size_t stream);

  // The key of some work, with everything that the choice depends on.
  std::string with_precision(const std::string& work) const;
  std::optional<std::string> known(const std::string& work) const;
  void keep(const std::string& work, const std::string& choice);

  const std::shared_ptr<Driver> driver_;
  const Plan& plan_;
  PlanMemory& memory_;
  const StepStarter& starter_;
  const CudaOptions& options_;
  std::map<std::string, std::string> kept_;  // equal steps are measured once, even without a database
};

}  // namespace rewright::cuda
