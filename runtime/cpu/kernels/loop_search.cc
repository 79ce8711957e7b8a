// Searches loop programs of generated code by measuring.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <new>
#include <random>
#include <set>

#include "base/error.h"
#include "runtime/cpu/loops/rows.h"
#include "runtime/cpu/planning/in_turn.h"
#include "runtime/cpu/planning/loop_choices.h"
#include "runtime/cpu/planning/measured_choices.h"
#include "runtime/cpu/running/runner.h"
#include "runtime/cpu/tile/arrangement.h"
#include "runtime/cpu/tile/extraction.h"
#include "runtime/endable_run.h"

namespace rewright::cpu {

namespace {

constexpr int kMeasuredNeighbours = 12;  // of one program
constexpr int kLeastTimings = 5, kMostTimings = 100;
constexpr double kEnoughTiming = 0.004;  // seconds of timing a program
constexpr double kSecondsByProblem = 3;
constexpr int kMostImprovements = 12;
constexpr double kMuchSlower = 2;             // than the first: not timed again
constexpr std::int64_t kDifferent = 10240;    // elements of an operand, which then repeat
const std::string kEstimate = "by estimate";  // kept where nothing faster was found; it is the text of no program

// Memory for a group, filled with random elements, so that its programs can be run.
class GroupRun {
 public:
  explicit GroupRun(const LoopProblem& problem) : problem_(problem) {
    for (const TileOperand& o : problem.operands) {
      operands_.push_back(filled(o));
      inputs_.push_back(operands_.back().bytes().data());
    }
    for (const GroupValue& v : problem.values)
      if (v.is_result) {
        results_.emplace_back(v.output.type, v.output.sizes);
        outputs_.push_back(results_.back().mutable_bytes().data());
      }
  }

  double seconds(const StagedProgram& program) {
    const Workers workers(problem_.options.threads);
    scratch_.resize(std::max(scratch_.size(), program.scratch_bytes() + 64));
    std::byte* const scratch = scratch_.data() + (64 - reinterpret_cast<std::uintptr_t>(scratch_.data()) % 64) % 64;
    const double start = work_seconds(problem_.options.threads);
    program.run(inputs_, outputs_, scratch, workers);
    return work_seconds(problem_.options.threads) - start;
  }

 private:
  // Blocks of channels are padded, so memory is for what is stored.
  static Tensor filled(const TileOperand& o) {
    if (o.type == DataType::kUndefined) return Tensor(DataType::kUint8, {64});
    const std::int64_t count = std::max<std::int64_t>(1, stored_elements(o.sizes, o.layout));
    std::minstd_rand random(1);
    std::uniform_real_distribution<double> real(0.25, 1.75);
    std::vector<double> values(static_cast<std::size_t>(std::min(count, kDifferent)));
    for (double& v : values) v = is_real(o.type) ? real(random) : static_cast<double>(random() % 2);
    const Tensor piece = Tensor::from_reals(o.type, {std::ssize(values)}, values);
    if (std::ssize(values) == count) return piece;
    Tensor result(o.type, {count});
    const std::span<std::byte> all = result.mutable_bytes();
    for (std::size_t at = 0; at < all.size(); at += piece.bytes().size())
      std::memcpy(all.data() + at, piece.bytes().data(), std::min(piece.bytes().size(), all.size() - at));
    return result;
  }

  const LoopProblem& problem_;
  std::vector<Tensor> operands_, results_;
  std::vector<const std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
  std::vector<std::byte> scratch_;
};

struct TimedLoops {
  LoopProgram loops;
  StagedProgram program;
  double seconds = std::numeric_limits<double>::infinity();
};

// The least times of runs in turn. The first candidate is timed at least once, and nothing is begun after the end.
void time_in_turn(GroupRun& run, std::vector<TimedLoops>& candidates, double end) {
  const TurnLimits limits{kLeastTimings, kMostTimings, kEnoughTiming * static_cast<double>(candidates.size())};
  in_turn(candidates.size(), limits, [&](int round, std::size_t n) {
    TimedLoops& c = candidates[n];
    const bool is_slow = round > 0 && c.seconds > kMuchSlower * candidates[0].seconds;
    if (is_slow || ((round > 0 || n > 0) && work_seconds(2) > end)) return 0.0;
    run_checkpoint();
    const double seconds = run.seconds(c.program);
    c.seconds = std::min(c.seconds, seconds);
    return seconds;
  });
}

bool reads_positions(const LoopProblem& problem) {
  bool reads = false;
  for (const GroupValue& v : problem.values)
    for_each_read(v.element, [&](const ElementNode& read) { for_each_looked_up(read, [&](const Element&) { reads = true; }); });
  return reads;
}

class LoopSearch {
 public:
  LoopSearch(const LoopProblem& problem, const LoopRates& rates, double seconds)
      : problem_(problem), rates_(rates), run_(problem), end_(work_seconds(2) + seconds) {}

  std::optional<FoundLoops> search() {
    auto estimated = compile_stages(problem_.values, problem_.operands, problem_.options);
    if (!estimated) {
      const LoopProgram apart = each_value_whole(problem_);
      estimated = compile_stages(problem_.values, problem_.operands, problem_.options, &apart);
    }
    if (!estimated) return std::nullopt;
    best_.push_back({estimated->loops(), std::move(*estimated)});
    seen_.insert(to_string(best_[0].loops));
    time_in_turn(run_, best_, end_);
    found_.measured = 1;
    found_.loops = best_[0].loops;
    found_.seconds = found_.estimated_seconds = best_[0].seconds;
    for (int step = 0; step < kMostImprovements && !is_over() && improve(); ++step) {
    }
    return found_;
  }

 private:
  bool is_over() const { return work_seconds(2) > end_; }

  // Goes on to the best neighbour; false if none is faster.
  bool improve() {
    std::vector<std::pair<double, LoopProgram>> ordered;
    for (LoopProgram& other : neighbours(problem_, found_.loops)) {
      if (!seen_.insert(to_string(other)).second) continue;
      const auto cost = cost_of(problem_, other, rates_);
      if (!cost) continue;
      ++found_.considered;
      if (1e-9 * cost->least > kClearlyFaster * found_.seconds) {
        ++found_.pruned;
        continue;
      }
      ordered.emplace_back(cost->nanoseconds, std::move(other));
    }
    std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<TimedLoops> candidates(std::make_move_iterator(best_.begin()), std::make_move_iterator(best_.end()));
    for (auto& [cost, loops] : ordered) {
      if (candidates.size() > kMeasuredNeighbours || is_over()) break;
      if (auto program = compile_stages(problem_.values, problem_.operands, problem_.options, &loops))
        candidates.push_back({std::move(loops), std::move(*program)});
    }
    found_.measured += static_cast<int>(candidates.size()) - 1;
    time_in_turn(run_, candidates, end_);
    found_.seconds = candidates[0].seconds;
    const auto fastest = std::min_element(candidates.begin(), candidates.end(),
                                          [](const TimedLoops& a, const TimedLoops& b) { return a.seconds < b.seconds; });
    const bool is_faster = fastest->seconds < kClearlyFaster * found_.seconds;
    found_.is_start = found_.is_start && !is_faster;
    TimedLoops chosen = std::move(is_faster ? *fastest : candidates[0]);
    found_.loops = chosen.loops;
    found_.seconds = chosen.seconds;
    best_.clear();
    best_.push_back(std::move(chosen));
    return is_faster;
  }

  const LoopProblem& problem_;
  const LoopRates& rates_;
  GroupRun run_;
  double end_;
  std::vector<TimedLoops> best_;  // one
  std::set<std::string> seen_;
  FoundLoops found_;
};

}  // namespace

LoopRates measure_loop_rates(Isa isa) {
  constexpr std::int64_t kRepeats = 20000;
  constexpr std::size_t kNear = 128 << 10, kFar = 32 << 20;
  constexpr int kRounds = 3;
  LoopRates rates;
  const auto nanoseconds = [&](const auto& work) {
    double least = std::numeric_limits<double>::infinity();
    for (int round = 0; round < kRounds; ++round) {
      const double start = work_seconds(1);
      work();
      least = std::min(least, work_seconds(1) - start);
    }
    return std::max(1.0, 1e9 * least);
  };
  const RowLoops& loops = loops_for<RowLoops>(isa);
  rates.operations = static_cast<double>(loops.peak_operations * kRepeats) / nanoseconds([&] { loops.peak(0.5f, kRepeats); });
  std::vector<std::byte> from(kFar, std::byte{1}), to(kFar, std::byte{2});
  const auto copy = [&](std::size_t bytes, int times) {
    for (int n = 0; n < times; ++n) std::memcpy(to.data(), from.data(), bytes);
  };
  constexpr int kCopies = 64;
  rates.cache_bytes = 2.0 * kNear * kCopies / nanoseconds([&] { copy(kNear, kCopies); });
  rates.memory_bytes = 2.0 * kFar / nanoseconds([&] { copy(kFar, 1); });
  return rates;
}

std::optional<FoundLoops> search_loops(const LoopProblem& problem, const LoopRates& rates, double seconds) {
  if (reads_positions(problem)) return std::nullopt;
  return LoopSearch(problem, rates, seconds).search();
}

bool search_loops(std::vector<LoopProblem> problems, MeasuredChoices& choices) {
  std::vector<std::pair<double, std::size_t>> ordered;
  std::set<std::string> names;
  std::optional<LoopRates> rates;
  for (std::size_t n = 0; n < problems.size(); ++n) {
    const std::string name = problems[n].name();
    if (!names.insert(name).second || choices.found(name)) continue;
    if (!rates) rates = measure_loop_rates(problems[n].options.isa);
    const auto cost = cost_of(problems[n], each_value_whole(problems[n]), *rates);
    ordered.emplace_back(cost ? -cost->nanoseconds : 0, n);
  }
  std::sort(ordered.begin(), ordered.end());
  const double end = work_seconds(2) + kLoopSearchSeconds;
  for (const auto& [cost, n] : ordered) {
    run_checkpoint();
    const double left = end - work_seconds(2);
    if (left <= 0) break;
    std::optional<FoundLoops> found;
    try {
      found = search_loops(problems[n], *rates, std::min(left, kSecondsByProblem));
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kCancelled) throw;
    } catch (const std::bad_alloc&) {
      continue;  // not kept: there may be more memory when it is searched again
    }
    choices.keep_found(problems[n].name(), found && !found->is_start ? to_string(found->loops) : kEstimate);
  }
  return !ordered.empty();
}

}  // namespace rewright::cpu
