#include "optimizer/measuring/measuring.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "optimizer/inputs/inputs.h"

namespace rewright::optimizer {

namespace {

constexpr double kLookShare = 0.4;        // of the budget; a graph whose single execution takes longer is not measured
constexpr double kBytesPerSecond = 6e8;   // writing and reading weights
constexpr double kMapped = 4e9;           // bytes of weights a second that another process reads
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

// The speedup at each of the sizes, of the graph at `after` against the one at `before`.
template <class AllRounds>
std::vector<double> speedups(const AllRounds& rounds, std::size_t before, std::size_t after) {
  std::vector<double> result;
  for (const auto& at : rounds.at) result.push_back(gain_of(at.at(before), at.at(after)).speedup);
  return result;
}

}  // namespace

Measuring::Measuring(std::vector<SizedGraph> given, Device& device, MeasuringOptions options, const Budget& budget)
    : device_(device), options_(std::move(options)), budget_(budget), weights_(bytes_of_weights(given.at(0).graph)) {
  double all = 0;
  for (const SizedGraph& sized : given) all += sized.weight;
  for (SizedGraph& sized : given) {
    given_graphs_.push_back(sized.graph);
    given_.push_back({std::move(sized.graph), all > 0 ? sized.weight / all : 1 / static_cast<double>(given.size()), 0, 0, {}});
  }
}

void Measuring::note(double seconds) {
  for (Given& given : given_) given.prepare = given.run = seconds / 4 / static_cast<double>(given_.size());
}

double Measuring::prepare_seconds() const {
  return std::accumulate(given_.begin(), given_.end(), 0.0, [](double sum, const Given& g) { return sum + g.prepare; });
}

double Measuring::run_seconds() const {
  return std::accumulate(given_.begin(), given_.end(), 0.0, [](double sum, const Given& g) { return sum + g.run; });
}

Measuring::Look Measuring::look() {
  const Budget::Clock::time_point end = budget_.within(kLookShare * budget_.seconds());
  device_.end_at(end);
  try {
    device_.write_ahead(given_graphs_);
  } catch (const Error&) {  // shows again where they are timed
  }
  // Sizes of one model have the weights in common, as in a session that is called with all of them.
  if (given_.size() > 1) kept_ = std::make_unique<KeptWeights>(device_);
  for (Given& given : given_)
    if (const Look look = look_at(given, end); look != Look::kExecuted) return look;
  // The first one packed them.
  double others = 0;
  for (std::size_t k = 1; k < given_.size(); ++k) others = std::max(others, given_[k].prepare);
  if (kept_) packing_ = std::max(0.0, given_[0].prepare - others);
  given_[0].prepare -= packing_;
  return Look::kExecuted;
}

Measuring::Look Measuring::look_at(Given& given, Budget::Clock::time_point end) {
  TimingOptions once;
  once.min_seconds = once.max_seconds = 0;
  once.min_rounds = once.warmup = 1;
  // A caller who stopped the search still wants measurements; a stop from now on may be for an endless loop.
  if (!options_.cancel.stop_requested()) once.cancel = options_.cancel;
  std::vector<std::vector<Tensor>> tried;
  for (const Attempt& attempt : attempts(given.graph)) {
    if (budget_.now() >= end) return Look::kNoTime;
    try {
      once.inputs = random_inputs(given.graph, {}, options_.seed + attempt.seed, attempt.draw);
      if (std::find(tried.begin(), tried.end(), once.inputs) != tried.end()) continue;
      tried.push_back(once.inputs);
      const double before = budget_.left();
      const std::vector<std::vector<double>> seconds = device_.time_graphs({&given.graph, 1}, once);
      const double passed = before - budget_.left();
      given.run = seconds.empty() || seconds[0].empty() ? 0 : seconds[0].back();
      given.prepare = std::max(0.0, passed - 2 * given.run);
      given.inputs = std::move(once.inputs);
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

// The estimated time of one measurement of so many graphs, of so many rounds, in a process of its own.
double Measuring::process_seconds(std::size_t graphs, double rounds) const {
  const auto n = static_cast<double>(graphs);
  const double fixed = kStartOfProcess + n * weights_ / kMapped + packing_, run = run_seconds();
  return kSlack * (fixed + n * (prepare_seconds() + run)) +
         std::max(rounds * n * run, run > 0 ? rounds / 10 * kUsualRounds : 0);
}

double Measuring::check_seconds() const {
  const double writing = weights_ / kBytesPerSecond;
  if (options_.check_runs == 0) return writing;
  const double kernels = std::min(1.0, kLookAtKernels * budget_.seconds());
  return 2 * writing + kernels + kSlack * 2 * options_.check_runs * (prepare_seconds() + 2 * run_seconds());
}

double Measuring::least_seconds() const { return 2 * process_seconds(2, kLeastRounds); }

double Measuring::wanted_seconds() const { return 2 * process_seconds(4, 10); }

std::string Measuring::advice() const {
  const double all = 1.3 * (least_seconds() + check_seconds()) / (1 - kLookShare / 2) + 2;
  return "give a budget of " + std::to_string(static_cast<long>(std::ceil(all))) + "s or more";
}

// The rounds that fit into so many seconds, of all sizes together; nothing if too few fit.
std::optional<TimingOptions> Measuring::timing(std::size_t graphs, double seconds) const {
  TimingOptions timing = options_.timing;
  timing.seed = options_.seed;
  // Estimates were made with room to spare, and what takes too long is ended.
  if (seconds < kLeastOfEstimate * process_seconds(graphs, kLeastRounds)) return std::nullopt;
  const double rounds = std::max(seconds - process_seconds(graphs, 0), kLeastOfRounds * seconds);
  const double round = static_cast<double>(graphs) * run_seconds();
  timing.max_seconds = std::min(timing.max_seconds, rounds);
  timing.min_seconds = std::min(timing.min_seconds, timing.max_seconds);
  timing.warmup = rounds < 8 * round ? 1 : timing.warmup;
  return timing;
}

// As many rounds at these sizes as at the others.
TimingOptions Measuring::timing_at(const Given& given, const TimingOptions& all) const {
  TimingOptions timing = all;
  const double run = run_seconds(), share = run > 0 ? given.run / run : 1 / static_cast<double>(given_.size());
  timing.max_seconds *= share;
  timing.min_seconds *= share;
  timing.inputs = given.inputs;
  return timing;
}

// Graphs that the device executes at all sizes.
std::vector<std::size_t> Measuring::executable(std::span<const AtSizes* const> candidates, double reserve) {
  TimingOptions once;
  once.min_seconds = once.max_seconds = 0;
  once.min_rounds = 1;
  once.warmup = 0;
  device_.end_at(budget_.before_end(reserve));
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    try {
      for (std::size_t k = 0; k < given_.size(); ++k) {
        once.inputs = given_[k].inputs;
        device_.time_graphs({&candidates[i]->at(k), 1}, once);
      }
      numbers.push_back(i);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kMissing) throw;
      if (error.code() == ErrorCode::kCancelled) break;
    }
  }
  return numbers;
}

std::optional<std::size_t> Measuring::slower_at(std::span<const double> speedups) const {
  if (given_.size() < 2) return std::nullopt;
  const auto least = std::min_element(speedups.begin(), speedups.end());
  if (*least >= kLeastAtAnySizes) return std::nullopt;
  return static_cast<std::size_t>(least - speedups.begin());
}

Measuring::AllRounds Measuring::time_in_turn(std::span<const AtSizes* const> graphs, const TimingOptions& timing, bool afresh) {
  AllRounds result;
  std::vector<GraphsInTurn> sets(given_.size());
  for (std::size_t k = 0; k < given_.size(); ++k) {
    for (const AtSizes* graph : graphs) sets[k].graphs.push_back(graph->at(k));
    sets[k].options = timing_at(given_[k], timing);
  }
  if (afresh)
    result.at = device_.time_afresh(sets);
  else
    for (const GraphsInTurn& set : sets) result.at.push_back(device_.time_graphs(set.graphs, set.options));
  std::size_t rounds = std::numeric_limits<std::size_t>::max();
  for (const Rounds& at : result.at)
    for (const std::vector<double>& one : at) rounds = std::min(rounds, one.size());
  result.mean.assign(graphs.size(), std::vector<double>(rounds));
  for (std::size_t g = 0; g < graphs.size(); ++g)
    for (std::size_t r = 0; r < rounds; ++r)
      for (std::size_t k = 0; k < given_.size(); ++k) result.mean[g][r] += given_[k].share * result.at[k].at(g)[r];
  return result;
}

Measuring::AllRounds Measuring::times(std::span<const AtSizes* const> graphs, const TimingOptions& timing, double reserve) {
  device_.end_at(budget_.before_end(reserve));
  return time_in_turn(graphs, timing, true);
}

Measuring::Result Measuring::measure(std::span<const AtSizes> candidates, std::vector<std::size_t> numbers, double reserve) {
  Result result;
  const auto left = [&] { return budget_.left() - reserve; };
  // The original graph is first and last in the first measurement.
  std::size_t count = numbers.size();
  const auto share = [&] { return left() * static_cast<double>(count + 2) / static_cast<double>(count + 6); };
  while (count > 1 && !timing(count + 2, share())) --count;
  result.measured = count;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const std::size_t ends = timing(count + 2, share()) ? 2 : 1;
    const double seconds = ends == 2 ? share() : left() / 2;
    const std::optional<TimingOptions> once = timing(count + ends, seconds);
    if (!once || (attempt > 0 && options_.cancel.stop_requested())) {
      result.no_time = attempt == 0;  // otherwise it was measured, but no gain was certain
      return result;
    }
    std::vector<const AtSizes*> graphs{&given_graphs_};
    for (std::size_t i = 0; i < count; ++i) graphs.push_back(&candidates[numbers[i]]);
    if (ends == 2) graphs.push_back(&given_graphs_);
    // It may take longer than planned, as long as there is time for the second.
    const AllRounds rounds = times(graphs, *once, reserve + process_seconds(2, kLeastRounds));
    FreshTimes first;
    first.before.push_back(rounds.mean.at(0));
    if (ends == 2) first.before.push_back(rounds.mean.at(count + 1));
    result.before = result.after = median(rounds.mean[0]);
    result.at.clear();
    for (const Rounds& at : rounds.at) result.at.push_back({median(at.at(0)), median(at.at(0)), 1});
    const Choice choice = best_of(rounds, count);
    result.slower_at = choice.slower_at;
    if (choice.most <= 1) return result;
    if (!choice.best) {  // noise, perhaps: that one alone once more
      if (choice.slower_at) return result;
      numbers = {numbers[choice.promising]};
      count = 1;
      continue;
    }
    first.after.push_back(rounds.mean[*choice.best + 1]);
    return confirm(candidates, numbers[*choice.best], first, speedups(rounds, 0, *choice.best + 1), std::move(result), reserve);
  }
  return result;
}

// The fastest in the mean, of those that are significantly faster and at no sizes slower.
Measuring::Choice Measuring::best_of(const AllRounds& rounds, std::size_t count) const {
  Choice choice;
  double best = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Gain gain = gain_of(rounds.mean[0], rounds.mean.at(i + 1));
    const std::optional<std::size_t> slower = slower_at(speedups(rounds, 0, i + 1));
    if (gain.speedup > choice.most) {
      choice.most = gain.speedup;
      choice.promising = i;
      choice.slower_at = gain.significant ? slower : std::nullopt;
    }
    if (!gain.significant || slower || (choice.best && gain.speedup <= best)) continue;
    choice.best = i;
    best = gain.speedup;
  }
  if (choice.best) choice.slower_at.reset();
  return choice;
}

// The second measurement: in another process, each prepared twice, if there is time for that.
Measuring::Result Measuring::confirm(std::span<const AtSizes> candidates, std::size_t number, const FreshTimes& first,
                                     std::span<const double> first_speedups, Result result, double reserve) {
  const auto left = [&] { return budget_.left() - reserve; };
  const std::size_t copies = timing(4, left()) ? 2 : 1;
  const std::optional<TimingOptions> again = timing(2 * copies, left());
  if (!again) {
    result.no_time = true;
    return result;
  }
  std::vector<const AtSizes*> pair;
  for (std::size_t c = 0; c < copies; ++c) pair.insert(pair.end(), {&given_graphs_, &candidates[number]});
  const AllRounds more = times(pair, *again, reserve);
  FreshTimes second;
  for (std::size_t c = 0; c < copies; ++c) {
    second.before.push_back(more.mean.at(2 * c));
    second.after.push_back(more.mean.at(2 * c + 1));
  }
  const ConfirmedGain gain = confirmed_gain(first, second);
  result.before = median(second.before[0]);
  result.after = median(second.after[0]);
  result.speedup = gain.speedup;
  const std::vector<double> second_speedups = speedups(more, 0, 1);
  std::vector<double> mean_speedups;
  result.at.clear();
  for (std::size_t k = 0; k < given_.size(); ++k) {
    mean_speedups.push_back((first_speedups[k] + second_speedups[k]) / 2);
    result.at.push_back({median(more.at[k].at(0)), median(more.at[k].at(1)), std::min(first_speedups[k], second_speedups[k])});
  }
  result.slower_at = slower_at(mean_speedups);
  if (gain.holds && !result.slower_at) result.best = number;
  return result;
}

Measuring::Result Measuring::choose(std::span<const AtSizes> candidates, double reserve) {
  std::vector<std::size_t> numbers;
  std::vector<const AtSizes*> all;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    numbers.push_back(i);
    all.push_back(&candidates[i]);
  }
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
  numbers = executable(all, reserve);
  if (numbers.empty()) return {};
  return begun().value_or(Result());
}

Measuring::Result Measuring::compare(const AtSizes& candidate, double reserve) {
  Result result;
  const double seconds = budget_.left() - reserve;
  const std::optional<TimingOptions> once = timing(2, seconds);
  const AtSizes* const pair[] = {&given_graphs_, &candidate};
  if (!once || executable(std::span(pair).last(1), reserve).empty()) return result;
  device_.end_at(budget_.within(seconds));
  try {
    const AllRounds rounds = time_in_turn(pair, *once, false);
    result.measured = 1;
    result.before = median(rounds.mean.at(0));
    result.after = median(rounds.mean.at(1));
    result.speedup = gain_of(rounds.mean[0], rounds.mean[1]).speedup;
    const std::vector<double> each = speedups(rounds, 0, 1);
    for (std::size_t k = 0; k < given_.size(); ++k)
      result.at.push_back({median(rounds.at[k].at(0)), median(rounds.at[k].at(1)), each[k]});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCancelled) throw;
    result.no_time = true;
  }
  return result;
}

}  // namespace rewright::optimizer
