// Compares what an optimization found, as its file will be read, with the model that was given.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "optimizer/check.h"
#include "optimizer/fault.h"
#include "optimizer/optimize.h"

namespace rewright::optimizer {

class WrittenCheck {
 public:
  // `sized` makes a graph whose sizes are all known, those that are measured. All of these must outlive it.
  WrittenCheck(const Graph& original, Device& device, const OptimizeOptions& options, const Budget& budget,
               std::function<Graph(const Graph&)> sized);

  // Executes the original. False if there was no time for it; whether it can be executed a check says.
  bool prepare();

  // The device cannot execute the model, for this reason.
  void leave_out_device(const std::string& why) { unexecutable_ = why; }

  // Executes both, by the device or else by what OptimizeOptions name, or else by the interpreter. Throws Error if the device
  // is gone.
  ResultComparison::Verdict check(const Graph& found, CheckReport& report);

  // Which of the steps from the original to `found`, which differs, made the difference.
  Fault find_difference(const Graph& found, const std::vector<CertificateStep>& steps, const RuleIndex& index,
                        Evaluator& evaluator);

 private:
  std::vector<CheckExecutor> executors();
  CheckExecutor on_device(Device& device);
  ResultCheck& results();
  Graph as_written(const Graph& graph) const;
  ResultComparison compare_written(const Graph& graph);
  bool parts_agree(const Graph& before, const Graph& after);

  const Graph& original_;
  Device& device_;
  const OptimizeOptions& options_;
  const Budget& budget_;
  std::function<Graph(const Graph&)> sized_;
  std::string unexecutable_;
  std::optional<ResultCheck> results_;
  int kernel_checks_ = 0;             // how many executions looked at kernels
  std::vector<std::string> kernels_;  // that were wrong: a line each
};

}  // namespace rewright::optimizer
