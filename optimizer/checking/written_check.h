// Compares an optimization's result, as read back from its file, with the original model.
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
  Device* second_device = nullptr;  // executes graphs that the device cannot; then the interpreter does
  ReferenceCheck reference;         // checks executed results; empty: only the two sides are compared
  // The graph as it is read back from its file, for the comparison. Empty: the graph itself.
  std::function<Graph(const Graph&)> written;
  std::stop_token cancel;
};

struct CheckReport {
  int runs = 0;
  std::string executor;  // the executor of both graphs: the device, "cpu" or "reference"
  double max_abs_error = 0;
  double max_rel_error = 0;  // of an output: largest difference / largest magnitude of the output
  bool ok = true;            // false: the result differed from the model and was dropped
  std::string reason;        // why it did not run; empty if it did, or was switched off
  // Integer inputs without a known valid range, if the check did not run because the model accepted no drawn inputs.
  std::vector<std::string> not_drawn{};
  std::string note;
  std::vector<std::string> kernels;  // the device's kernels that were wrong for this model and replaced: a line each
  std::vector<Fault> differs;        // steps left out because they changed results: bugs of ours
};

class WrittenCheck {
 public:
  // `sized` makes graphs whose sizes are all known, those that are measured: one for each set of sizes. The graph, the devices
  // and the budget must outlive it.
  WrittenCheck(const Graph& original, Device& device, WrittenCheckOptions options, const Budget& budget,
               std::function<std::vector<Graph>(const Graph&)> sized);

  // Executes the original. False if there was no time; check() tells whether it can be executed.
  bool prepare();

  // Records why the device cannot execute the model.
  void leave_out_device(const std::string& why) { unexecutable_ = why; }

  // Executes both at all sizes, by the device or else by the second device, or else by the interpreter. Throws Error if the
  // device is gone.
  ResultComparison::Verdict check(const Graph& found, CheckReport& report);

  // Finds the step from the original to `found` that made the difference.
  Fault find_difference(const Graph& found, const std::vector<CertificateStep>& steps, const RuleIndex& index,
                        Evaluator& evaluator);

 private:
  std::vector<CheckExecutor> executors();
  CheckExecutor on_device(Device& device);
  std::vector<ResultCheck>& results();  // at each set of sizes
  std::vector<Graph> as_written(const Graph& graph) const;
  // Why the graph has no written form; empty if it has one.
  std::string unwritable(const Graph& graph) const;
  ResultComparison compare(const std::vector<Graph>& sized);
  ResultComparison compare_written(const Graph& graph);
  bool parts_agree(const Graph& before, const Graph& after);

  const Graph& original_;
  Device& device_;
  const WrittenCheckOptions options_;
  const Budget& budget_;
  std::function<std::vector<Graph>(const Graph&)> sized_;
  std::string unexecutable_;
  std::vector<ResultCheck> results_;
  std::size_t compared_last_ = 0;     // the sizes of the last comparison: where results differed, those at which they did
  int kernel_checks_ = 0;             // how many executions looked at kernels
  std::vector<std::string> kernels_;  // that were wrong: a line each
};

}  // namespace rewright::optimizer
