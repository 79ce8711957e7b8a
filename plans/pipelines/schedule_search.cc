#include "plans/pipelines/schedule_search.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>

#include "base/error.h"
#include "optimizer/integer_program/integer_program.h"
#include "plans/pipelines/named_schedules.h"

namespace rewright::plans {

namespace {

// The actions of one step on their processes; orders and times are chosen.
class ScheduleProgram {
 public:
  // `start` has gradients apart and one step. `limit`: of activations.
  ScheduleProgram(const PipelineSchedule& start, const ScheduleTimes& times, std::size_t limit)
      : start_(start), times_(times), limit_(limit), needs_(start), timing_(time_schedule(start, times)) {
    for (std::uint32_t p = 0; p < start.processes.size(); ++p) {
      numbers_.emplace_back();
      for (std::uint32_t n = 0; n < start.processes[p].size(); ++n) {
        if (start.processes[p][n].kind == ActionKind::kUpdate) continue;
        numbers_[p].push_back(n);
      }
    }
    for (std::size_t p = 0; p < numbers_.size(); ++p)
      for (const std::uint32_t a : numbers_[p])
        for (const std::uint32_t b : numbers_[p])
          if (a < b && !before(p, a, b) && !before(p, b, a)) ++pairs_;
  }

  std::size_t pairs() const { return pairs_; }

  struct Solved {
    std::optional<PipelineSchedule> schedule;
    double bound = 0;
    bool proved_best = false;
  };

  Solved solve(double seconds, std::int64_t nodes) {
    add_times();
    add_orders();
    add_limits();
    optimizer::IntegerProgram::Options options;
    options.gap = 1e-6, options.nodes = nodes, options.seconds = seconds;
    const auto solution = program_.minimize(start_values(), options);
    Solved result;
    result.bound = std::max(solution.bound, least_);
    if (solution.status == optimizer::IntegerProgram::Status::kNothing) return result;
    result.proved_best = solution.status == optimizer::IntegerProgram::Status::kOptimal;
    result.schedule = schedule_of(solution.values);
    return result;
  }

 private:
  using IntegerProgram = optimizer::IntegerProgram;

  const PipelineAction& action(std::size_t p, std::uint32_t n) const { return start_.processes[p][n]; }
  double takes(std::size_t p, std::uint32_t n) const { return action_seconds(start_, times_, action(p, n)); }

  // The process of each stage for a micro-batch: those with the same are alike.
  std::vector<std::uint32_t> way(std::uint32_t micro_batch) {
    auto& known = ways_[micro_batch];
    if (known.empty()) {
      known.resize(start_.stages);
      for (std::uint32_t p = 0; p < start_.processes.size(); ++p)
        for (const PipelineAction& a : start_.processes[p])
          if (a.kind == ActionKind::kForward && a.micro_batch == micro_batch) known[a.stage] = p;
    }
    return known;
  }

  // Is a before b in every schedule that matters? As they need each other, and micro-batches are alike.
  bool before(std::size_t p, std::uint32_t a, std::uint32_t b) {
    const PipelineAction &x = action(p, a), &y = action(p, b);
    if (x.micro_batch > y.micro_batch || way(x.micro_batch) != way(y.micro_batch)) return false;
    if (x.stage == y.stage) return x.kind <= y.kind && !(x.micro_batch == y.micro_batch && x.kind == y.kind);
    // A forward pass comes before all later passes; a backward pass before those of earlier stages.
    if (x.kind == ActionKind::kForward && x.stage < y.stage) return true;
    if (x.kind == ActionKind::kForward && y.kind != ActionKind::kForward) return true;
    return x.kind == ActionKind::kBackward && y.kind != ActionKind::kForward && y.stage < x.stage;
  }

  void add_times() {
    horizon_ = 0;
    for (std::size_t p = 0; p < numbers_.size(); ++p) {
      double busy = 0;
      for (const std::uint32_t n : numbers_[p]) busy += takes(p, n) + 2 * times_.message;
      horizon_ += busy;
    }
    for (std::size_t p = 0; p < numbers_.size(); ++p) {
      double busy = 0;
      for (const std::uint32_t n : numbers_[p]) busy += takes(p, n);
      least_ = std::max(least_, busy);
    }
    step_ = program_.add_variable(1, least_, horizon_, false);
    for (std::size_t p = 0; p < numbers_.size(); ++p) {
      starts_.emplace_back(start_.processes[p].size(), -1);
      for (const std::uint32_t n : numbers_[p]) starts_[p][n] = program_.add_variable(0, 0, 2 * horizon_, false);
    }
    std::vector<ActionPlace> needed;
    for (std::uint32_t p = 0; p < numbers_.size(); ++p)
      for (const std::uint32_t n : numbers_[p]) {
        needed.clear();
        needs_.each({p, n}, needed);
        for (const ActionPlace& at : needed) precede(at.process, at.index, p, n, at.process == p ? 0 : times_.message);
        // The span of a process: each action that may be its last behind each that may be its first.
        for (const std::uint32_t first : numbers_[p])
          if (is_end(p, n, false) && is_end(p, first, true))
            program_.add_row(takes(p, n), IntegerProgram::kInfinite, {{step_, 1}, {starts_[p][first], 1}, {starts_[p][n], -1}});
      }
  }

  bool is_end(std::size_t p, std::uint32_t n, bool first) {
    return std::none_of(numbers_[p].begin(), numbers_[p].end(),
                        [&](std::uint32_t m) { return m != n && (first ? before(p, m, n) : before(p, n, m)); });
  }

  void precede(std::size_t p, std::uint32_t a, std::size_t q, std::uint32_t b, double message) {
    if (p == q && a == b) return;
    program_.add_row(takes(p, a) + message, IntegerProgram::kInfinite, {{starts_[q][b], 1}, {starts_[p][a], -1}});
  }

  // For each two actions of a process whose order is open a variable: is the one with the lesser number first?
  void add_orders() {
    for (std::size_t p = 0; p < numbers_.size(); ++p) {
      first_.emplace_back();
      for (const std::uint32_t a : numbers_[p])
        for (const std::uint32_t b : numbers_[p]) {
          if (a == b) continue;
          if (before(p, a, b)) precede(p, a, p, b, 0);
          if (a > b || before(p, a, b) || before(p, b, a)) continue;
          const int y = program_.add_variable(0, 0, 1, true);
          first_[p].emplace(std::pair(a, b), y);
          const double large = 2 * horizon_;
          program_.add_row(takes(p, a) - large, IntegerProgram::kInfinite,
                           {{starts_[p][b], 1}, {starts_[p][a], -1}, {y, -large}});
          program_.add_row(takes(p, b), IntegerProgram::kInfinite, {{starts_[p][a], 1}, {starts_[p][b], -1}, {y, large}});
        }
    }
  }

  // Is a before b? As a constant, and a variable times 1 or -1.
  struct Order {
    double constant = 0;
    int variable = -1;
    double coefficient = 0;
  };
  Order order(std::size_t p, std::uint32_t a, std::uint32_t b) {
    if (before(p, a, b)) return {1};
    if (before(p, b, a)) return {0};
    return a < b ? Order{0, first_[p].at({a, b}), 1} : Order{1, first_[p].at({b, a}), -1};
  }

  // When a forward pass begins, those that began before it and have not given their activations back are few enough.
  void add_limits() {
    for (std::size_t p = 0; p < numbers_.size(); ++p)
      for (const std::uint32_t n : numbers_[p]) {
        if (action(p, n).kind != ActionKind::kForward) continue;
        double held = 1;
        std::map<int, double> terms;
        for (const std::uint32_t other : numbers_[p]) {
          const ActionKind kind = action(p, other).kind;
          if (other == n || kind == ActionKind::kBackward) continue;
          const Order o = order(p, other, n);
          const double sign = kind == ActionKind::kForward ? 1 : -1;
          held += sign * o.constant;
          if (o.variable >= 0) terms[o.variable] += sign * o.coefficient;
        }
        if (!terms.empty())
          program_.add_row(-IntegerProgram::kInfinite, static_cast<double>(limit_) - held, {terms.begin(), terms.end()});
      }
  }

  std::vector<double> start_values() {
    std::vector<double> values(program_.variables(), 0);
    double span = least_;
    for (std::size_t p = 0; p < numbers_.size(); ++p) {
      for (const std::uint32_t n : numbers_[p]) values[static_cast<std::size_t>(starts_[p][n])] = timing_.starts[p][n];
      for (const auto& [pair, y] : first_[p]) values[static_cast<std::size_t>(y)] = pair.first < pair.second ? 1 : 0;
      if (numbers_[p].empty()) continue;
      span = std::max(
          span, timing_.starts[p][numbers_[p].back()] + takes(p, numbers_[p].back()) - timing_.starts[p][numbers_[p].front()]);
    }
    values[static_cast<std::size_t>(step_)] = span;
    return values;
  }

  PipelineSchedule schedule_of(const std::vector<double>& values) const {
    PipelineSchedule result = start_;
    result.name = "searched";
    for (std::size_t p = 0; p < numbers_.size(); ++p) {
      std::vector<std::uint32_t> order = numbers_[p];
      std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
        return values[static_cast<std::size_t>(starts_[p][a])] < values[static_cast<std::size_t>(starts_[p][b])];
      });
      auto& list = result.processes[p];
      list.clear();
      for (const std::uint32_t n : order) list.push_back(action(p, n));
      for (const PipelineAction& a : start_.processes[p])
        if (a.kind == ActionKind::kUpdate) list.push_back(a);
    }
    return result;
  }

  const PipelineSchedule& start_;
  const ScheduleTimes& times_;
  const std::size_t limit_;
  const ActionNeeds needs_;
  const ScheduleTiming timing_;
  std::vector<std::vector<std::uint32_t>> numbers_;  // of each process's actions but updates
  std::map<std::uint32_t, std::vector<std::uint32_t>> ways_;
  std::size_t pairs_ = 0;
  double horizon_ = 0, least_ = 0;
  IntegerProgram program_;
  int step_ = -1;
  std::vector<std::vector<int>> starts_;
  std::vector<std::map<std::pair<std::uint32_t, std::uint32_t>, int>> first_;
};

// Equal parts of the stages, where a process has several.
ScheduleTimes times_of_parts(const ScheduleSearch& search, const PipelineSchedule& schedule) {
  const double share = static_cast<double>(search.processes) / static_cast<double>(schedule.stages);
  StageSeconds part = search.stage;
  part.forward *= share, part.backward *= share, part.weights *= share, part.update = 0;
  return {std::vector<StageSeconds>(schedule.stages, part), search.message};
}

std::size_t limit_of(const ScheduleSearch& search, const PipelineSchedule& schedule) {
  const double stages = search.activations > 0 ? search.activations : static_cast<double>(search.processes);
  return static_cast<std::size_t>(
      std::floor(stages * static_cast<double>(schedule.stages) / static_cast<double>(search.processes) + 1e-9));
}

}  // namespace

FoundSchedule search_schedule(const ScheduleSearch& search) {
  const auto begin = std::chrono::steady_clock::now();
  FoundSchedule best;
  // The best named one of each placement of the stages, with gradients apart.
  std::map<std::string, std::pair<double, PipelineSchedule>> starts;
  for (const std::string& name : schedule_names()) {
    const ScheduleSize size{search.processes, search.micro_batches};
    if (!why_no_schedule(name, size).empty() || (name == "chimera" && !search.two_copies)) continue;
    const PipelineSchedule schedule = with_gradients_apart(named_schedule(name, size));
    if (!why_asynchronous(schedule).empty()) continue;
    if (check_schedule(schedule, {.activations = limit_of(search, schedule)}).fault != ScheduleFault::kNone) continue;
    const double seconds = time_schedule(schedule, times_of_parts(search, schedule)).seconds;
    if (best.best_named.empty() || seconds < best.named_seconds) {
      best.best_named = name, best.named_seconds = seconds;
      best.schedule = schedule, best.seconds = seconds;
    }
    const std::string placement = name == "interleaved" || name == "chimera" || name == "zb-v" ? name : "one after the other";
    const auto [at, is_new] = starts.try_emplace(placement, seconds, schedule);
    if (!is_new && seconds < at->second.first) at->second = {seconds, schedule};
  }
  if (best.best_named.empty())
    throw Error(ErrorCode::kUsage, "no schedule of " + std::to_string(search.processes) + " processes and " +
                                       std::to_string(search.micro_batches) + " micro-batches holds so few activations");
  bool complete = true;
  double bound = best.seconds;
  for (const auto& [placement, start] : starts) {
    const ScheduleTimes times = times_of_parts(search, start.second);
    ScheduleProgram program(start.second, times, limit_of(search, start.second));
    const double left = search.seconds - std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (program.pairs() > search.most_pairs || left <= 0) {
      complete = false;
      continue;
    }
    const auto solved = program.solve(left, search.nodes);
    bound = std::min(bound, solved.bound);
    complete = complete && solved.proved_best;
    if (!solved.schedule) continue;
    // Judged like all others, not by the program's tolerances.
    if (check_schedule(*solved.schedule, {.activations = limit_of(search, start.second)}).fault != ScheduleFault::kNone)
      continue;
    const double seconds = time_schedule(*solved.schedule, times).seconds;
    if (seconds < best.seconds) best.schedule = *solved.schedule, best.seconds = seconds;
  }
  best.bound = complete ? std::min(bound, best.seconds) : 0;
  best.proved_best = complete && best.seconds <= bound * (1 + 1e-5) + 1e-12;
  return best;
}

}  // namespace rewright::plans
