#include "optimizer/checking/written_check.h"

#include <algorithm>
#include <utility>

#include "graph/onnx/kept_calls.h"

namespace rewright::optimizer {

namespace {

constexpr int kRunsOfParts = 2;  // of small graphs that may show a fault

// How long executions compare the device's own steps with the reference: longer for the first ones (of the two graphs) than for
// later ones. All of them do, so that a wrong kernel is not blamed on a graph.
constexpr int kLongKernelChecks = 3;
constexpr double kLongKernelCheck = 0.4, kShortKernelCheck = 0.05;  // seconds
constexpr double kKernelCheckShare = 0.1;                           // of the remaining budget, at most

constexpr double kMostOperations = 3e8;      // that the interpreter executes, ...
constexpr double kLongestInterpreting = 20;  // ... and for how many seconds

bool ends_all(const Error& error) { return error.code() == ErrorCode::kMissing || error.code() == ErrorCode::kCancelled; }

}  // namespace

WrittenCheck::WrittenCheck(const Graph& original, Device& device, WrittenCheckOptions options, const Budget& budget,
                           std::function<std::vector<Graph>(const Graph&)> sized)
    : original_(original), device_(device), options_(std::move(options)), budget_(budget), sized_(std::move(sized)) {}

bool WrittenCheck::prepare() {
  try {
    for (ResultCheck& results : results()) results.prepare();
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCancelled || options_.cancel.stop_requested()) throw;
    results_.clear();
    return false;
  }
}

// One wrong kernel may compute both sides, so devices that can check their steps do.
CheckExecutor WrittenCheck::on_device(Device& device) {
  return {device.name(), [this, &device](const Graph& graph, std::span<const Tensor> inputs) {
            const bool is_long = kernel_checks_++ < kLongKernelChecks;
            const double most = is_long ? kLongKernelCheck : kShortKernelCheck;
            CheckedRun run = device.run_checked(graph, inputs, std::clamp(kKernelCheckShare * budget_.left(), 0.0, most));
            for (std::string& fault : run.faults)
              if (std::find(kernels_.begin(), kernels_.end(), fault) == kernels_.end()) kernels_.push_back(std::move(fault));
            return std::move(run.outputs);
          }};
}

std::vector<CheckExecutor> WrittenCheck::executors() {
  std::vector<CheckExecutor> list;
  if (unexecutable_.empty()) list.push_back(on_device(device_));
  if (options_.second_device != nullptr) list.push_back(on_device(*options_.second_device));
  list.push_back(reference_executor(kMostOperations, kLongestInterpreting, budget_.end()));
  return list;
}

std::vector<ResultCheck>& WrittenCheck::results() {
  if (results_.empty())
    for (Graph& original : sized_(original_))
      results_.emplace_back(std::move(original), executors(), options_.seed, options_.runs, options_.reference);
  return results_;
}

// The graph as its file will have it; as it is where inputs would have other types there.
std::vector<Graph> WrittenCheck::as_written(const Graph& graph) const {
  std::vector<Graph> known = sized_(graph);
  if (!options_.written) return known;
  std::vector<Graph> back = sized_(options_.written(graph));
  const auto same = [](const Graph& a, const Graph& b) {
    return std::equal(a.inputs().begin(), a.inputs().end(), b.inputs().begin(), b.inputs().end(),
                      [&](ValueId x, ValueId y) { return a.value(x).type == b.value(y).type; });
  };
  return std::equal(known.begin(), known.end(), back.begin(), back.end(), same) ? back : known;
}

// The first of the sizes at which results differ, or at which nothing could be executed, decides.
ResultComparison WrittenCheck::compare(const std::vector<Graph>& sized) {
  ResultComparison all;
  for (compared_last_ = 0; compared_last_ < sized.size(); ++compared_last_) {
    ResultComparison at = results().at(compared_last_).compare(sized[compared_last_]);
    at.runs += all.runs;
    at.max_abs_error = std::max(at.max_abs_error, all.max_abs_error);
    at.max_rel_error = std::max(at.max_rel_error, all.max_rel_error);
    if (at.note.empty()) at.note = all.note;
    all = std::move(at);
    if (all.verdict != ResultComparison::Verdict::kSame) break;
  }
  return all;
}

ResultComparison WrittenCheck::compare_written(const Graph& graph) {
  try {
    return compare(as_written(graph));
  } catch (const Error& error) {
    if (ends_all(error)) throw;
    ResultComparison failed;
    failed.verdict = ResultComparison::Verdict::kDiffers;
    failed.note = error.what();
    return failed;
  }
}

std::string WrittenCheck::unwritable(const Graph& graph) const {
  try {
    as_written(graph);
    return {};
  } catch (const Error& error) {
    if (ends_all(error)) throw;
    return error.code() == ErrorCode::kUnsupported ? error.what() : "";
  }
}

ResultComparison::Verdict WrittenCheck::check(const Graph& found, CheckReport& report) {
  const ResultComparison result = compare_written(found);
  const bool ran = result.verdict != ResultComparison::Verdict::kNotRun;
  report.runs = result.runs;
  report.executor = result.executor;
  report.max_abs_error = result.max_abs_error;
  report.max_rel_error = result.max_rel_error;
  report.ok = result.verdict != ResultComparison::Verdict::kDiffers;
  report.note = ran ? result.note : "";
  report.kernels = kernels_;
  report.reason = ran ? "" : (unexecutable_.empty() ? "" : unexecutable_ + "; ") + result.note;
  report.not_drawn = result.not_drawn;
  for (std::size_t i = 0; i < result.not_drawn.size(); ++i)
    report.reason += (i == 0 ? "; no valid integers are known for the inputs \"" : ", \"") + result.not_drawn[i] + "\"";
  return result.verdict;
}

bool WrittenCheck::parts_agree(const Graph& before, const Graph& after) {
  try {
    const std::vector<Graph> befores = sized_(before), afters = sized_(after);
    for (std::size_t k = 0; k < befores.size(); ++k) {
      ResultCheck parts(befores[k], executors(), options_.seed, kRunsOfParts);
      if (parts.compare(afters.at(k)).verdict == ResultComparison::Verdict::kDiffers) return false;
    }
    return true;
  } catch (const Error&) {  // it shows nothing
    return true;
  }
}

Fault WrittenCheck::find_difference(const Graph& found, const std::vector<CertificateStep>& steps, const RuleIndex& index,
                                    Evaluator& evaluator) {
  const auto same = [](const ResultComparison& result) { return result.verdict == ResultComparison::Verdict::kSame; };
  std::size_t differs_at = compared_last_;
  const bool when_written = same(compare(sized_(found)));
  if (!when_written) differs_at = compared_last_;
  const FaultCheck how = {
      [&](const Graph& after) { return same(when_written ? compare_written(after) : compare(sized_(after))); },
      [&](const Graph& before, const Graph& after) { return parts_agree(before, after); }};
  Graph start = original_;
  tidy_around_calls(start);
  Fault fault = find_fault(start, steps, index, evaluator, how);
  if (when_written) {
    fault.kind = Fault::Kind::kExport;
    fault.unwritable = unwritable(found);
  }
  if (fault.smallest) fault.smallest = sized_(*fault.smallest).at(std::min(differs_at, results().size() - 1));
  return fault;
}

}  // namespace rewright::optimizer
