#include "optimizer/measuring/measuring.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "optimizer/inputs/inputs.h"

namespace rewright::optimizer {

namespace {

constexpr double kLookShare = 0.4;        // of the budget; a graph whose single execution takes longer is not measured
constexpr double kBytesPerSecond = 6e8;   // writing and reading weights
constexpr double kStartOfProcess = 0.25;  // seconds
constexpr int kLeastRounds = 2;           // the fewest meaningful rounds, for slow graphs
constexpr double kUsualRounds = 0.6;      // seconds
constexpr int kAttempts = 2;              // at an uncertain gain
constexpr double kLookAtKernels = 0.06;   // of the budget, in a check; at most a second
constexpr double kLeastOfEstimate = 0.7, kLeastOfRounds = 0.25;  // of the available seconds
constexpr double kSlack = 1.15;                                  // estimates may be exceeded by this factor

double bytes_of_weights(const Graph& graph) {
  double bytes = 0;
  for (ValueId id = 0; id < graph.value_count(); ++id)
    if (graph.is_constant(id)) bytes += static_cast<double>(graph.value(id).constant.byte_count());
  return bytes;
}

}  // namespace

Measuring::Measuring(const Graph& given, Device& device, MeasuringOptions options, const Budget& budget)
    : given_(given), device_(device), options_(std::move(options)), budget_(budget), weights_(bytes_of_weights(given)) {}

Measuring::Look Measuring::look() {
  TimingOptions once;
  once.min_seconds = once.max_seconds = 0;
  once.min_rounds = once.warmup = 1;
  // A caller who stopped the search still wants measurements; a stop from now on may be for an endless loop.
  if (!options_.cancel.stop_requested()) once.cancel = options_.cancel;
  const Budget::Clock::time_point end = budget_.within(kLookShare * budget_.seconds());
  device_.end_at(end);
  std::vector<std::vector<Tensor>> tried;
  for (const Attempt& attempt : attempts(given_)) {
    if (budget_.now() >= end) return Look::kNoTime;
    try {
      once.inputs = random_inputs(given_, {}, options_.seed + attempt.seed, attempt.draw);
      if (std::find(tried.begin(), tried.end(), once.inputs) != tried.end()) continue;
      tried.push_back(once.inputs);
      const double before = budget_.left();
      const std::vector<std::vector<double>> seconds = device_.time_graphs({&given_, 1}, once);
      const double passed = before - budget_.left();
      run_ = seconds.empty() || seconds[0].empty() ? 0 : seconds[0].back();
      prepare_ = std::max(0.0, passed - 2 * run_);
      inputs_ = std::move(once.inputs);
      return Look::kExecuted;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kMissing) throw;
      if (error.code() == ErrorCode::kCancelled && !options_.cancel.stop_requested()) return Look::kNoTime;
      if (reason_.empty()) reason_ = device_.name() + ": " + error.what();
      if (error.code() == ErrorCode::kCancelled) break;
    }
  }
  return Look::kFailed;
}

// The estimated time of one measurement of this many graphs, written to this many files.
double Measuring::process_seconds(std::size_t graphs, std::size_t files, double rounds) const {
  const auto n = static_cast<double>(graphs);
  const double fixed = kStartOfProcess + static_cast<double>(files) * weights_ / kBytesPerSecond;
  return kSlack * (fixed + n * (prepare_ + run_)) + std::max(rounds * n * run_, run_ > 0 ? rounds / 10 * kUsualRounds : 0);
}

double Measuring::check_seconds() const {
  const double writing = weights_ / kBytesPerSecond;
  if (options_.check_runs == 0) return writing;
  const double kernels = std::min(1.0, kLookAtKernels * budget_.seconds());
  return 2 * writing + kernels + kSlack * 2 * options_.check_runs * (prepare_ + 2 * run_);
}

double Measuring::least_seconds() const { return 2 * process_seconds(2, 2, kLeastRounds); }

double Measuring::wanted_seconds() const { return process_seconds(4, 3, 10) + process_seconds(4, 2, 10); }

std::string Measuring::advice() const {
  const double all = 1.3 * (least_seconds() + check_seconds()) / (1 - kLookShare / 2) + 2;
  return "give a budget of " + std::to_string(static_cast<long>(std::ceil(all))) + "s or more";
}

// The rounds that fit into this many seconds of one process; nullopt if too few fit.
std::optional<TimingOptions> Measuring::timing(std::size_t graphs, std::size_t files, double seconds) const {
  TimingOptions timing = options_.timing;
  timing.seed = options_.seed;
  timing.inputs = inputs_;
  // Estimates are generous, and measurements that take too long are ended.
  if (seconds < kLeastOfEstimate * process_seconds(graphs, files, kLeastRounds)) return std::nullopt;
  const double rounds = std::max(seconds - process_seconds(graphs, files, 0), kLeastOfRounds * seconds);
  const double round = static_cast<double>(graphs) * run_;
  timing.max_seconds = std::min(timing.max_seconds, rounds);
  timing.min_seconds = std::min(timing.min_seconds, timing.max_seconds);
  timing.warmup = rounds < 8 * round ? 1 : timing.warmup;
  return timing;
}

// The candidates that the device executes.
std::vector<std::size_t> Measuring::executable(std::span<const Graph> candidates, double reserve) {
  TimingOptions once;
  once.min_seconds = once.max_seconds = 0;
  once.min_rounds = 1;
  once.warmup = 0;
  once.inputs = inputs_;
  device_.end_at(budget_.before_end(reserve));
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    try {
      device_.time_graphs({&candidates[i], 1}, once);
      numbers.push_back(i);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kMissing) throw;
      if (error.code() == ErrorCode::kCancelled) break;
    }
  }
  return numbers;
}

Measuring::Result Measuring::measure(std::span<const Graph> candidates, std::vector<std::size_t> numbers, double reserve) {
  Result result;
  const auto left = [&] { return budget_.left() - reserve; };
  // The original graph is first and last in the first measurement.
  std::size_t count = numbers.size();
  const auto share = [&] { return left() * static_cast<double>(count + 2) / static_cast<double>(count + 6); };
  while (count > 1 && !timing(count + 2, count + 1, share())) --count;
  result.measured = count;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const std::size_t ends = timing(count + 2, count + 1, share()) ? 2 : 1;
    const double seconds = ends == 2 ? share() : left() / 2;
    const std::optional<TimingOptions> once = timing(count + ends, count + 1, seconds);
    if (!once || (attempt > 0 && options_.cancel.stop_requested())) {
      result.no_time = attempt == 0;  // otherwise it was measured, but no gain was certain
      return result;
    }
    std::vector<Graph> graphs{given_};
    for (std::size_t i = 0; i < count; ++i) graphs.push_back(candidates[numbers[i]]);
    if (ends == 2) graphs.push_back(given_);
    // May take longer than planned, as long as the second measurement still fits.
    const std::vector<std::vector<double>> rounds = times(graphs, *once, reserve + process_seconds(2, 2, kLeastRounds));
    FreshTimes first;
    first.before.push_back(rounds.at(0));
    if (ends == 2) first.before.push_back(rounds.at(count + 1));
    result.before = result.after = median(rounds[0]);
    std::optional<std::size_t> best;
    Gain best_gain;
    std::size_t promising = 0;
    double most = 1;
    for (std::size_t i = 0; i < count; ++i) {
      const Gain gain = gain_of(rounds[0], rounds.at(i + 1));
      if (gain.speedup > most) {
        most = gain.speedup;
        promising = numbers[i];
      }
      if (!gain.significant || (best && gain.speedup <= best_gain.speedup)) continue;
      best = i;
      best_gain = gain;
    }
    if (most <= 1) return result;
    if (!best) {  // possibly noise: measures that one again
      numbers = {promising};
      count = 1;
      continue;
    }
    first.after.push_back(rounds[*best + 1]);
    const Graph& winner = candidates[numbers[*best]];
    // In another process, with each graph prepared twice if there is time.
    const std::size_t copies = timing(4, 2, left()) ? 2 : 1;
    const std::optional<TimingOptions> again = timing(2 * copies, 2, left());
    if (!again) {
      result.no_time = true;
      return result;
    }
    std::vector<Graph> pair;
    for (std::size_t c = 0; c < copies; ++c) pair.insert(pair.end(), {given_, winner});
    const std::vector<std::vector<double>> more = times(pair, *again, reserve);
    FreshTimes second;
    for (std::size_t c = 0; c < copies; ++c) {
      second.before.push_back(more.at(2 * c));
      second.after.push_back(more.at(2 * c + 1));
    }
    const ConfirmedGain gain = confirmed_gain(first, second);
    result.before = median(second.before[0]);
    result.after = median(second.after[0]);
    result.speedup = gain.speedup;
    if (gain.holds) result.best = numbers[*best];
    return result;
  }
  return result;
}

std::vector<std::vector<double>> Measuring::times(std::span<const Graph> graphs, const TimingOptions& timing, double reserve) {
  device_.end_at(budget_.before_end(reserve));
  return device_.time_afresh(graphs, timing);
}

Measuring::Result Measuring::choose(std::span<const Graph> candidates, double reserve) {
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < candidates.size(); ++i) numbers.push_back(i);
  const auto begun = [&]() -> std::optional<Result> {
    try {
      return measure(candidates, numbers, reserve);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kMissing) throw;
      if (error.code() != ErrorCode::kCancelled) return std::nullopt;
      Result result;
      result.no_time = true;
      return result;
    }
  };
  if (std::optional<Result> result = begun()) return *result;
  numbers = executable(candidates, reserve);
  if (numbers.empty()) return {};
  return begun().value_or(Result());
}

Measuring::Result Measuring::compare(const Graph& candidate, double reserve) {
  Result result;
  const double seconds = budget_.left() - reserve;
  const std::optional<TimingOptions> once = timing(2, 0, seconds);
  if (!once || executable({&candidate, 1}, reserve).empty()) return result;
  const Graph graphs[] = {given_, candidate};
  device_.end_at(budget_.within(seconds));
  try {
    const std::vector<std::vector<double>> rounds = device_.time_graphs(graphs, *once);
    result.measured = 1;
    result.before = median(rounds.at(0));
    result.after = median(rounds.at(1));
    result.speedup = gain_of(rounds[0], rounds[1]).speedup;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCancelled) throw;
    result.no_time = true;
  }
  return result;
}

}  // namespace rewright::optimizer
