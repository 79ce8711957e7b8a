#include "optimizer/checking/check.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "expressions/difference.h"
#include "graph/execute.h"
#include "optimizer/inputs/operations.h"

namespace rewright::optimizer {

namespace {

constexpr double kLongestTry = 20;  // seconds after which no other inputs are tried

double seconds_from(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The inputs with their last bits changed. The effect on an output bounds the effect of rounding inside the graph.
std::vector<Tensor> slightly_changed(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> result;
  for (const Tensor& input : inputs) {
    if (!is_real(input.type())) {
      result.push_back(input);
      continue;
    }
    std::vector<double> elements = input.reals();
    for (std::size_t i = 0; i < elements.size(); ++i) elements[i] *= i % 2 == 0 ? 1 + 0x1p-20 : 1 - 0x1p-20;
    result.push_back(Tensor::from_reals(input.type(), input.sizes(), elements));
  }
  return result;
}

bool same_interface(const Tensor& a, const Tensor& b) { return a.type() == b.type() && a.sizes() == b.sizes(); }

// Is the difference within the type's tolerance, or within an absolute one?
bool within_tolerance(const Tensor& expected, const Tensor& found, double factor, double tolerated, ResultComparison* total) {
  if (!same_interface(expected, found)) return false;
  const Difference d = difference(expected, found);
  if (total != nullptr) {
    total->max_abs_error = std::max(total->max_abs_error, d.absolute);
    total->max_rel_error = std::max(total->max_rel_error, d.relative());
  }
  return d.relative() <= factor * tolerated_relative_error(expected.type()) || d.absolute <= tolerated;
}

}  // namespace

double tolerated_relative_error(DataType type) {
  switch (type) {
    case DataType::kDouble:
      return 1e-9;
    case DataType::kFloat:
      return 1e-3;
    case DataType::kHalf:
      return 2e-2;
    case DataType::kBfloat16:
      return 1e-1;
    default:
      return 0;
  }
}

CheckExecutor reference_executor(double most_operations, double most_seconds, std::chrono::steady_clock::time_point end) {
  return {"reference", [=](const Graph& graph, std::span<const Tensor> inputs) {
            if (operations_of(graph) > most_operations)
              throw Error(ErrorCode::kUnsupported, "it is too large for the reference interpreter");
            const auto start = std::chrono::steady_clock::now();
            const std::vector<Datum> data(inputs.begin(), inputs.end());
            return tensors_of(graph, execute(graph, data, [&] {
                                if (seconds_from(start) > most_seconds || std::chrono::steady_clock::now() > end)
                                  throw Error(ErrorCode::kUnsupported, "the reference interpreter takes too long for it");
                              }));
          }};
}

ReferenceCheck small_reference_check(double most_operations, std::chrono::steady_clock::time_point end) {
  return [=](const Graph& graph, std::span<const Tensor> inputs, std::span<const Tensor> outputs) -> std::string {
    constexpr double kMoreThanTwoKernels = 4;  // times the tolerance: the interpreter rounds less than kernels
    const CheckExecutor reference = reference_executor(most_operations, 5, end);
    try {
      const std::vector<Tensor> given(inputs.begin(), inputs.end());
      const std::vector<Tensor> right = reference.run(graph, given);
      std::vector<Tensor> shaken;
      for (std::size_t i = 0; i < right.size(); ++i) {
        if (within_tolerance(right[i], outputs[i], kMoreThanTwoKernels, 0, nullptr)) continue;
        if (shaken.empty()) shaken = reference.run(graph, slightly_changed(given));
        const bool numbers = same_interface(right[i], shaken[i]) && is_real(right[i].type());
        const double unavoidable = numbers ? difference(right[i], shaken[i]).absolute : 0;
        if (!within_tolerance(right[i], outputs[i], kMoreThanTwoKernels, 8 * unavoidable, nullptr))
          return "output \"" + graph.outputs()[i].name + "\" is not what the reference interpreter computes";
      }
    } catch (const Error&) {  // the reference cannot decide
    }
    return {};
  };
}

ResultCheck::ResultCheck(Graph given, std::vector<CheckExecutor> executors, std::uint64_t seed, int runs,
                         ReferenceCheck reference)
    : given_(std::move(given)),
      executors_(std::move(executors)),
      seed_(seed),
      runs_wanted_(runs),
      reference_(std::move(reference)) {}

std::optional<ResultCheck::Run> ResultCheck::prepare_run(const CheckExecutor& executor, std::uint64_t seed, bool first) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::vector<Tensor>> tried;
  for (const Attempt& attempt : attempts(given_)) {
    if (seconds_from(start) > kLongestTry) break;
    try {
      std::vector<Tensor> inputs = random_inputs(given_, {}, seed + attempt.seed, attempt.draw);
      if (std::find(tried.begin(), tried.end(), inputs) != tried.end()) continue;
      tried.push_back(inputs);
      Run run{inputs, executor.run(given_, inputs), {}};
      run.varies.assign(run.expected.size(), false);
      if (!has_random_results(given_)) return run;
      const std::vector<Tensor> again = executor.run(given_, inputs);
      for (std::size_t i = 0; i < again.size(); ++i)
        run.varies[i] = !within_tolerance(run.expected[i], again[i], 1, 0, nullptr);
      return run;
    } catch (const Error& error) {
      const bool ends = error.code() == ErrorCode::kMissing || error.code() == ErrorCode::kCancelled;
      if (ends && &executor == executors_.data()) throw;
      if (first && tried.size() <= 1) reason_ += (reason_.empty() ? "" : "; ") + executor.name + ": " + error.what();
      if (ends) break;
    }
  }
  return std::nullopt;
}

bool ResultCheck::prepare() {
  if (std::exchange(prepared_, true)) return !runs_.empty();
  for (const CheckExecutor& executor : executors_) {
    for (int r = 0; r < runs_wanted_; ++r) {
      std::optional<Run> run = prepare_run(executor, seed_ + static_cast<std::uint64_t>(r), r == 0);
      if (!run) break;
      runs_.push_back(std::move(*run));
    }
    if (runs_.empty()) continue;
    executor_ = &executor;
    break;
  }
  if (runs_.empty()) {
    not_drawn_ = inputs_without_range(given_);
    return false;
  }
  const auto drawn = [](const Run& run) {
    return !run.varies.empty() && std::all_of(run.varies.begin(), run.varies.end(), [](bool v) { return v; });
  };
  if (std::all_of(runs_.begin(), runs_.end(), drawn)) {
    runs_.clear();
    reason_ = "all of its results are drawn at random";
  }
  return !runs_.empty();
}

bool ResultCheck::same_output(Run& run, std::size_t output, const Tensor& found, ResultComparison& total) {
  const Tensor& expected = run.expected[output];
  if (within_tolerance(expected, found, 1, 0, &total)) return true;
  if (!is_real(expected.type()) || !same_interface(expected, found)) return false;
  if (run.shaken.empty()) run.shaken = executor_->run(given_, slightly_changed(run.inputs));
  if (!same_interface(expected, run.shaken.at(output))) return false;
  return within_tolerance(expected, found, 1, 4 * difference(expected, run.shaken[output]).absolute, nullptr);
}

// One wrong kernel may have computed both sides.
void ResultCheck::look_at_reference(const Graph& other, const Run& run, const std::vector<Tensor>& found,
                                    ResultComparison& total) {
  if (!reference_ || executor_->name == "reference") return;
  if (std::find(run.varies.begin(), run.varies.end(), true) != run.varies.end()) return;
  const std::string wrong = reference_(other, run.inputs, found);
  if (wrong.empty()) return;
  const std::string before = reference_(given_, run.inputs, run.expected);
  if (before.empty()) total.verdict = ResultComparison::Verdict::kDiffers;
  total.note = before.empty() ? wrong : "on " + executor_->name + ", for the given model as well: " + before;
}

ResultComparison ResultCheck::compare(const Graph& other) {
  ResultComparison total;
  if (!prepare()) {
    total.note = reason_;
    total.not_drawn = not_drawn_;
    return total;
  }
  total.executor = executor_->name;
  total.verdict = ResultComparison::Verdict::kSame;
  for (Run& run : runs_) {
    ++total.runs;
    std::vector<Tensor> found;
    try {
      found = executor_->run(other, run.inputs);
    } catch (const Error& error) {
      const bool ends = error.code() == ErrorCode::kMissing || error.code() == ErrorCode::kCancelled;
      if (ends && executor_ == executors_.data()) throw;
      total.verdict = ResultComparison::Verdict::kDiffers;
      total.note = error.what();
      return total;
    }
    for (std::size_t i = 0; i < run.expected.size(); ++i)
      if (!run.varies[i] && !same_output(run, i, found.at(i), total)) total.verdict = ResultComparison::Verdict::kDiffers;
    if (total.verdict == ResultComparison::Verdict::kSame && &run == runs_.data()) look_at_reference(other, run, found, total);
    if (total.verdict == ResultComparison::Verdict::kDiffers) return total;
  }
  return total;
}

}  // namespace rewright::optimizer
