#include "plans/pipelines/schedule_check.h"

#include <algorithm>
#include <map>

namespace rewright::plans {

namespace {

constexpr std::uint32_t kNoProcess = std::numeric_limits<std::uint32_t>::max();

std::size_t pass_kinds(const PipelineSchedule& schedule) { return 1 + static_cast<std::size_t>(schedule.gradients); }

// The last pass that needs a micro-batch's activations.
ActionKind last_pass(const PipelineSchedule& schedule) {
  return static_cast<ActionKind>(static_cast<std::size_t>(schedule.gradients));
}

std::string on_process(std::size_t process) { return " on process " + std::to_string(process); }

// Finds the first fault of a schedule's lists.
class ScheduleChecker {
 public:
  ScheduleChecker(const PipelineSchedule& schedule, const ScheduleLimits& limits) : schedule_(schedule), limits_(limits) {}

  ScheduleCheck check() {
    check_actions() && check_places() && check_updates() && check_progress() && check_memory();
    return std::move(result_);
  }

 private:
  bool fault(ScheduleFault kind, std::string reason) {
    result_ = {kind, std::move(reason), {}};
    return false;
  }

  std::size_t number(ActionKind kind, std::size_t stage, std::size_t micro_batch) const {
    return (static_cast<std::size_t>(kind) * schedule_.stages + stage) * schedule_.all_micro_batches() + micro_batch;
  }

  // Each action is one that there is, once.
  bool check_actions() {
    places_.assign(pass_kinds(schedule_) * schedule_.stages * schedule_.all_micro_batches(), {kNoProcess, 0});
    for (std::uint32_t p = 0; p < schedule_.processes.size(); ++p)
      for (std::uint32_t n = 0; n < schedule_.processes[p].size(); ++n) {
        const PipelineAction& a = schedule_.processes[p][n];
        const bool is_update = a.kind == ActionKind::kUpdate;
        if (is_update ? schedule_.gradients == GradientActions::kNone
                      : static_cast<std::size_t>(a.kind) >= pass_kinds(schedule_))
          return fault(ScheduleFault::kRange, to_string(a) + on_process(p) + " is no action of a schedule with such gradients");
        if (a.stage >= schedule_.stages || a.micro_batch >= schedule_.all_micro_batches())
          return fault(ScheduleFault::kRange, to_string(a) + on_process(p) + " is out of range: there are " +
                                                  std::to_string(schedule_.stages) + " stages and " +
                                                  std::to_string(schedule_.all_micro_batches()) + " micro-batches");
        if (is_update) continue;
        ActionPlace& place = places_[number(a.kind, a.stage, a.micro_batch)];
        if (place.process != kNoProcess)
          return fault(ScheduleFault::kTwice, to_string(a) + on_process(p) + " stands in the schedule twice");
        place = {p, n};
      }
    return true;
  }

  // None is missing, and each micro-batch passes a stage on one process, forwards first.
  bool check_places() {
    for (std::uint32_t s = 0; s < schedule_.stages; ++s)
      for (std::uint32_t i = 0; i < schedule_.all_micro_batches(); ++i) {
        for (std::size_t k = 0; k < pass_kinds(schedule_); ++k)
          if (places_[number(static_cast<ActionKind>(k), s, i)].process == kNoProcess)
            return fault(ScheduleFault::kMissing, to_string({static_cast<ActionKind>(k), s, i, 0}) + " is missing");
        for (std::size_t k = 1; k < pass_kinds(schedule_); ++k)
          if (!check_pair(places_[number(static_cast<ActionKind>(k - 1), s, i)],
                          places_[number(static_cast<ActionKind>(k), s, i)]))
            return false;
      }
    return true;
  }

  bool check_pair(ActionPlace first, ActionPlace second) {
    const PipelineAction &a = schedule_.processes[first.process][first.index],
                         &b = schedule_.processes[second.process][second.index];
    if (first.process != second.process)
      return fault(ScheduleFault::kElsewhere, to_string(b) + " stands" + on_process(second.process) + ", and " + to_string(a) +
                                                  ", whose results it needs," + on_process(first.process));
    if (first.index > second.index)
      return fault(ScheduleFault::kOrder,
                   to_string(b) + on_process(second.process) + " stands before " + to_string(a) + ", which it needs");
    if (a.version != b.version)
      return fault(ScheduleFault::kVersion,
                   to_string(b) + on_process(second.process) + " reads other weights than " + to_string(a));
    return true;
  }

  // Updates by process and stage: each has gradients that no other one had, and weights are read when they are there.
  bool check_updates() {
    if (schedule_.gradients == GradientActions::kNone) return check_unchanged_weights();
    std::map<std::uint32_t, std::pair<std::size_t, std::uint32_t>> counts;  // by stage: updates, on the process
    for (std::uint32_t p = 0; p < schedule_.processes.size(); ++p) {
      std::map<std::uint32_t, std::pair<std::size_t, std::size_t>> stages;  // updates so far, gradients since the last one
      for (const PipelineAction& a : schedule_.processes[p]) {
        auto& [updates, gradients] = stages[a.stage];
        if (a.kind == ActionKind::kUpdate) {
          if (gradients == 0) return fault(ScheduleFault::kUpdate, to_string(a) + on_process(p) + " has no gradient to apply");
          ++updates, gradients = 0;
          continue;
        }
        if (a.kind == ActionKind::kForward && a.version > updates)
          return fault(ScheduleFault::kVersion, to_string(a) + on_process(p) + " reads weights that are not there yet: stage " +
                                                    std::to_string(a.stage) + " has had " + std::to_string(updates) +
                                                    " updates");
        if (a.kind == last_pass(schedule_)) ++gradients;
      }
      for (const auto& [stage, state] : stages) {
        if (state.second > 0)
          return fault(ScheduleFault::kUpdate,
                       "gradients of stage " + std::to_string(stage) + on_process(p) + " enter no update");
        const auto [known, is_new] = counts.try_emplace(stage, state.first, p);
        if (!is_new && known->second.first != state.first)
          return fault(ScheduleFault::kUpdate,
                       "stage " + std::to_string(stage) + " has " + std::to_string(known->second.first) + " updates" +
                           on_process(known->second.second) + " and " + std::to_string(state.first) + on_process(p));
      }
    }
    return true;
  }

  bool check_unchanged_weights() {
    for (std::uint32_t p = 0; p < schedule_.processes.size(); ++p)
      for (const PipelineAction& a : schedule_.processes[p])
        if (a.version > 0)
          return fault(ScheduleFault::kVersion, to_string(a) + on_process(p) + " reads weights that no update makes");
    return true;
  }

  // Processes go on as far as they can.
  bool check_progress() {
    const ActionNeeds needs(schedule_);
    const auto& lists = schedule_.processes;
    std::vector<std::uint32_t> done(lists.size(), 0);
    std::vector<std::vector<std::uint32_t>> waiting(lists.size());  // processes, by the one they wait for
    std::vector<std::uint32_t> ready;
    for (std::uint32_t p = 0; p < lists.size(); ++p) ready.push_back(p);
    std::reverse(ready.begin(), ready.end());
    std::vector<ActionPlace> needed, order;
    while (!ready.empty()) {
      const std::uint32_t p = ready.back();
      ready.pop_back();
      bool waits = false;
      while (!waits && done[p] < lists[p].size()) {
        needed.clear();
        needs.each({p, done[p]}, needed);
        for (const ActionPlace& n : needed)
          if (n.index >= done[n.process]) {
            waiting[n.process].push_back(p), waits = true;
            break;
          }
        if (waits) break;
        order.push_back({p, done[p]++});
        ready.insert(ready.end(), waiting[p].begin(), waiting[p].end());
        waiting[p].clear();
      }
    }
    for (std::uint32_t p = 0; p < lists.size(); ++p) {
      if (done[p] == lists[p].size()) continue;
      needed.clear();
      needs.each({p, done[p]}, needed);
      for (const ActionPlace& n : needed)
        if (n.index >= done[n.process])
          return fault(ScheduleFault::kDeadlock, "process " + std::to_string(p) + " waits at " + to_string(lists[p][done[p]]) +
                                                     " for " + to_string(lists[n.process][n.index]) + on_process(n.process) +
                                                     ", which itself waits at " + to_string(lists[n.process][done[n.process]]));
    }
    result_.order = std::move(order);
    return true;
  }

  bool check_memory() {
    const auto held = most_activations(schedule_), versions = most_versions_of_a_stage();
    for (std::size_t p = 0; p < held.size(); ++p) {
      if (held[p] > limits_.activations)
        return fault(ScheduleFault::kMemory, "process " + std::to_string(p) + " holds the activations of " +
                                                 std::to_string(held[p]) + " micro-batches, where " +
                                                 std::to_string(limits_.activations) + " are allowed");
      if (versions[p] > limits_.versions)
        return fault(ScheduleFault::kMemory, "process " + std::to_string(p) + " holds " + std::to_string(versions[p]) +
                                                 " versions of a stage's weights, where " + std::to_string(limits_.versions) +
                                                 " are allowed");
    }
    return true;
  }

  std::vector<std::size_t> most_versions_of_a_stage() const;

  const PipelineSchedule& schedule_;
  const ScheduleLimits& limits_;
  std::vector<ActionPlace> places_;
  ScheduleCheck result_;
};

// Calls found(process, stage, versions) with the most versions of each stage's weights on each process: those that a pass to
// come reads, and the newest.
template <class Found>
void count_versions(const PipelineSchedule& schedule, const Found& found) {
  for (std::size_t p = 0; p < schedule.processes.size(); ++p) {
    struct Weights {
      std::map<std::uint32_t, std::size_t> readers;  // passes to come, by version
      std::uint32_t newest = 0;
      std::size_t most = 1;
    };
    std::map<std::uint32_t, Weights> stages;
    for (const PipelineAction& a : schedule.processes[p])
      if (a.kind != ActionKind::kUpdate) ++stages[a.stage].readers[a.version];
    for (const PipelineAction& a : schedule.processes[p]) {
      Weights& w = stages[a.stage];
      if (a.kind == ActionKind::kUpdate) {
        ++w.newest;
      } else if (const auto readers = w.readers.find(a.version); --readers->second == 0) {
        w.readers.erase(readers);
      }
      std::size_t held = 1;
      for (auto it = w.readers.begin(); it != w.readers.end() && it->first < w.newest; ++it) ++held;
      w.most = std::max(w.most, held);
    }
    for (const auto& [stage, w] : stages) found(p, stage, w.most);
  }
}

std::vector<std::size_t> ScheduleChecker::most_versions_of_a_stage() const {
  std::vector<std::size_t> result(schedule_.processes.size(), 0);
  count_versions(schedule_, [&](std::size_t p, std::uint32_t, std::size_t most) { result[p] = std::max(result[p], most); });
  return result;
}

}  // namespace

ScheduleCheck check_schedule(const PipelineSchedule& schedule, const ScheduleLimits& limits) {
  return ScheduleChecker(schedule, limits).check();
}

std::string why_asynchronous(const PipelineSchedule& schedule) {
  if (schedule.gradients == GradientActions::kNone) return {};
  for (std::size_t p = 0; p < schedule.processes.size(); ++p) {
    std::map<std::uint32_t, std::pair<std::size_t, std::size_t>> stages;  // updates, and the last micro-batch in one
    std::map<std::uint32_t, std::size_t> expected;                        // passes of a step on this process, by stage
    for (const PipelineAction& a : schedule.processes[p])
      if (a.kind == last_pass(schedule) && a.micro_batch < schedule.micro_batches) ++expected[a.stage];
    for (const PipelineAction& a : schedule.processes[p]) {
      auto& [updates, passes] = stages[a.stage];
      const std::size_t step = a.micro_batch / schedule.micro_batches;
      if (a.kind == ActionKind::kForward && a.version != step)
        return "stage " + std::to_string(a.stage) + " computes micro-batch " + std::to_string(a.micro_batch) +
               " with weights of version " + std::to_string(a.version) + ", where one process has version " +
               std::to_string(step);
      if (a.kind == last_pass(schedule)) {
        if (step != updates)
          return "the update " + std::to_string(updates) + " of stage " + std::to_string(a.stage) +
                 " has the gradient of micro-batch " + std::to_string(a.micro_batch) + ", which is of step " +
                 std::to_string(step);
        ++passes;
      }
      if (a.kind == ActionKind::kUpdate) {
        if (passes != expected[a.stage])
          return "stage " + std::to_string(a.stage) + " updates its weights in the midst of a batch, after " +
                 std::to_string(passes) + " of its micro-batches";
        ++updates, passes = 0;
      }
    }
  }
  return {};
}

std::vector<std::size_t> most_activations(const PipelineSchedule& schedule) {
  std::vector<std::size_t> result;
  for (const auto& list : schedule.processes) {
    std::size_t held = 0, most = 0;
    for (const PipelineAction& a : list) {
      if (a.kind == ActionKind::kForward) most = std::max(most, ++held);
      if (a.kind == last_pass(schedule) && held > 0) --held;
    }
    result.push_back(most);
  }
  return result;
}

std::vector<std::size_t> most_versions(const PipelineSchedule& schedule) {
  std::vector<std::size_t> result(schedule.processes.size(), 0);
  count_versions(schedule, [&](std::size_t p, std::uint32_t, std::size_t most) { result[p] += most; });
  return result;
}

ActionNeeds::ActionNeeds(const PipelineSchedule& schedule) : schedule_(schedule), before_update_(schedule.stages) {
  places_.assign(pass_kinds(schedule) * schedule.stages * schedule.all_micro_batches(), {kNoProcess, 0});
  for (std::uint32_t p = 0; p < schedule.processes.size(); ++p) {
    std::map<std::uint32_t, std::pair<std::uint32_t, ActionPlace>> stages;  // updates so far, the last backward pass
    auto& numbers = update_number_.emplace_back(schedule.processes[p].size(), 0);
    for (std::uint32_t n = 0; n < schedule.processes[p].size(); ++n) {
      const PipelineAction& a = schedule.processes[p][n];
      auto& [updates, last] = stages[a.stage];
      if (a.kind == ActionKind::kUpdate) {
        auto& before = before_update_[a.stage];
        before.resize(std::max<std::size_t>(before.size(), updates + 1));
        before[updates].push_back(last);
        numbers[n] = updates++;
        continue;
      }
      places_[(static_cast<std::size_t>(a.kind) * schedule.stages + a.stage) * schedule.all_micro_batches() + a.micro_batch] = {
          p, n};
      if (a.kind == last_pass(schedule)) last = {p, n};
    }
  }
}

const ActionPlace* ActionNeeds::find(ActionKind kind, std::size_t stage, std::size_t micro_batch) const {
  return &places_[(static_cast<std::size_t>(kind) * schedule_.stages + stage) * schedule_.all_micro_batches() + micro_batch];
}

void ActionNeeds::each(ActionPlace at, std::vector<ActionPlace>& needs) const {
  const PipelineAction& a = schedule_.processes[at.process][at.index];
  switch (a.kind) {
    case ActionKind::kForward:
      if (a.stage > 0) needs.push_back(*find(ActionKind::kForward, a.stage - 1, a.micro_batch));
      break;
    case ActionKind::kBackward:
      needs.push_back(*find(ActionKind::kForward, a.stage, a.micro_batch));
      if (a.stage + 1 < schedule_.stages) needs.push_back(*find(ActionKind::kBackward, a.stage + 1, a.micro_batch));
      break;
    case ActionKind::kWeights:
      needs.push_back(*find(ActionKind::kBackward, a.stage, a.micro_batch));
      break;
    case ActionKind::kUpdate:
      for (const ActionPlace& place : before_update_[a.stage][update_number_[at.process][at.index]])
        if (place.process != at.process) needs.push_back(place);
      break;
  }
}

}  // namespace rewright::plans
