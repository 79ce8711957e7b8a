#include "plans/pipelines/schedule_timing.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "plans/pipelines/schedule_check.h"

namespace rewright::plans {

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

class ScheduleTimer {
 public:
  ScheduleTimer(const PipelineSchedule& schedule, const ScheduleTimes& times)
      : schedule_(schedule), times_(times), needs_(schedule) {
    ScheduleCheck check = check_schedule(schedule);
    if (check.fault != ScheduleFault::kNone) throw Error(ErrorCode::kUsage, check.reason, schedule.name);
    order_ = std::move(check.order);
  }

  ScheduleTiming run() {
    ScheduleTiming result;
    std::vector<double> step_ends(schedule_.steps, 0);
    ends_of(kAll);
    for (std::size_t p = 0; p < schedule_.processes.size(); ++p) {
      auto& starts = result.starts.emplace_back();
      for (std::size_t n = 0; n < schedule_.processes[p].size(); ++n) {
        const PipelineAction& a = schedule_.processes[p][n];
        starts.push_back(begins_[p][n]);
        result.alone = std::max(result.alone, ends_[p][n]);
        if (a.kind == ActionKind::kUpdate) continue;
        double& end = step_ends[a.micro_batch / schedule_.micro_batches];
        end = std::max(end, ends_[p][n]);
      }
    }
    result.seconds = result.alone;
    if (schedule_.steps > 1)
      result.seconds = (step_ends.back() - step_ends.front()) / static_cast<double>(schedule_.steps - 1);
    else if (schedule_.gradients != GradientActions::kNone)
      result.seconds = largest_cycle_mean();
    for (const auto& list : schedule_.processes) {
      double busy = 0;
      for (const PipelineAction& a : list) busy += seconds(a);
      busy /= static_cast<double>(schedule_.steps);
      result.waiting.push_back(result.seconds > 0 ? (result.seconds - busy) / result.seconds : 0);
      result.bubble += result.waiting.back() / static_cast<double>(schedule_.processes.size());
    }
    return result;
  }

 private:
  static constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

  double seconds(const PipelineAction& a) const { return action_seconds(schedule_, times_, a); }

  // When actions end if process `from` begins at 0 and others wait for it (kNever: they do not), or all begin at 0.
  void ends_of(std::size_t from) {
    ends_.resize(schedule_.processes.size());
    for (std::size_t p = 0; p < ends_.size(); ++p) ends_[p].assign(schedule_.processes[p].size(), kNever);
    begins_ = ends_;
    std::vector<ActionPlace> needed;
    for (const ActionPlace at : order_) {
      double begin = at.index > 0 ? ends_[at.process][at.index - 1] : from == kAll || from == at.process ? 0 : kNever;
      needed.clear();
      needs_.each(at, needed);
      for (const ActionPlace& n : needed)
        begin = std::max(begin, ends_[n.process][n.index] + (n.process == at.process ? 0 : times_.message));
      begins_[at.process][at.index] = begin;
      ends_[at.process][at.index] = begin + seconds(schedule_.processes[at.process][at.index]);
    }
  }

  // With the longest path from the beginning of a step on one process to its end on another as an edge: a process's next step
  // begins when its step ends.
  double largest_cycle_mean() {
    std::vector<std::size_t> used;
    for (std::size_t p = 0; p < schedule_.processes.size(); ++p)
      if (!schedule_.processes[p].empty()) used.push_back(p);
    const std::size_t n = used.size();
    std::vector<std::vector<double>> edges(n, std::vector<double>(n, kNever));
    for (std::size_t a = 0; a < n; ++a) {
      ends_of(used[a]);
      for (std::size_t b = 0; b < n; ++b) edges[a][b] = ends_[used[b]].back();
    }
    std::vector<std::vector<double>> longest(n + 1, std::vector<double>(n, kNever));  // by number of edges, from any process
    std::fill(longest[0].begin(), longest[0].end(), 0.0);
    for (std::size_t k = 1; k <= n; ++k)
      for (std::size_t a = 0; a < n; ++a)
        for (std::size_t b = 0; b < n; ++b) longest[k][b] = std::max(longest[k][b], longest[k - 1][a] + edges[a][b]);
    double result = 0;
    for (std::size_t b = 0; b < n; ++b) {
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t k = 0; k < n; ++k)
        if (longest[k][b] > kNever) least = std::min(least, (longest[n][b] - longest[k][b]) / static_cast<double>(n - k));
      if (longest[n][b] > kNever) result = std::max(result, least);
    }
    return result;
  }

  const PipelineSchedule& schedule_;
  const ScheduleTimes& times_;
  const ActionNeeds needs_;
  std::vector<ActionPlace> order_;
  std::vector<std::vector<double>> begins_, ends_;
};

}  // namespace

double action_seconds(const PipelineSchedule& schedule, const ScheduleTimes& times, const PipelineAction& action) {
  if (!times.stages.empty() && times.stages.size() != schedule.stages)
    throw Error(ErrorCode::kUsage, "times of " + std::to_string(times.stages.size()) + " stages are given, and there are " +
                                       std::to_string(schedule.stages));
  const StageSeconds s = times.stages.empty() ? StageSeconds{} : times.stages[action.stage];
  switch (action.kind) {
    case ActionKind::kForward:
      return s.forward;
    case ActionKind::kBackward:
      return s.backward + (schedule.gradients == GradientActions::kTogether ? s.weights : 0);
    case ActionKind::kWeights:
      return s.weights;
    case ActionKind::kUpdate:
      return s.update;
  }
  return 0;
}

ScheduleTiming time_schedule(const PipelineSchedule& schedule, const ScheduleTimes& times) {
  return ScheduleTimer(schedule, times).run();
}

}  // namespace rewright::plans
