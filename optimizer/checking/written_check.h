// Compares what an optimization found, as its file will be read, with the model that was given.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "optimizer/checking/check.h"
#include "optimizer/checking/fault.h"
#include "optimizer/devices/device.h"
#include "optimizer/limits/budget.h"
#include "optimizer/matching/match.h"
#include "optimizer/matching/steps.h"

namespace rewright::optimizer {

struct WrittenCheckOptions {
  std::uint64_t seed = 0;
  int runs = 1;
  Device* second_device = nullptr;  // executes what the device cannot; then the interpreter does
  ReferenceCheck reference;         // of what the check executed; none: both sides are compared alone
  // A graph as it comes back from the file that it will be written to: that is what is compared. None: the graph itself.
  std::function<Graph(const Graph&)> written;
  std::stop_token cancel;
};

struct CheckReport {
  int runs = 0;
  std::string executor;  // what executed both graphs: the device, "cpu" or "reference"
  double max_abs_error = 0;
  double max_rel_error = 0;  // of an output: largest difference / largest magnitude of the output
  bool ok = true;            // false: what was found differed from the model, and was thrown away
  std::string reason;        // why it did not run; empty if it did, or was not to
  // Inputs of integers without a known valid range, if the check did not run since the model accepted no drawn inputs.
  std::vector<std::string> not_drawn{};
  std::string note;
  std::vector<std::string> kernels;  // of the device that were wrong at this model, and were replaced: a line each
  std::vector<Fault> differs;        // what was left out, since it changed the results: faults of ours
};

class WrittenCheck {
 public:
  // `sized` makes a graph whose sizes are all known, those that are measured. The graph, the devices and the budget must
  // outlive it.
  WrittenCheck(const Graph& original, Device& device, WrittenCheckOptions options, const Budget& budget,
               std::function<Graph(const Graph&)> sized);

  // Executes the original. False if there was no time for it; whether it can be executed a check says.
  bool prepare();

  // The device cannot execute the model, for this reason.
  void leave_out_device(const std::string& why) { unexecutable_ = why; }

  // Executes both, by the device or else by the second device, or else by the interpreter. Throws Error if the device
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
  const WrittenCheckOptions options_;
  const Budget& budget_;
  std::function<Graph(const Graph&)> sized_;
  std::string unexecutable_;
  std::optional<ResultCheck> results_;
  int kernel_checks_ = 0;             // how many executions looked at kernels
  std::vector<std::string> kernels_;  // that were wrong: a line each
};

}  // namespace rewright::optimizer
