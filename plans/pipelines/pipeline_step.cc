#include "plans/pipelines/pipeline_step.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "optimizer/costs/cost_model.h"
#include "plans/pipelines/schedule_check.h"
#include "plans/pipelines/schedule_timing.h"
#include "plans/simulation/block_maker.h"

namespace rewright::plans {

namespace {

constexpr std::size_t kSimulatedSteps = 3;  // where steps follow each other

// The tasks of all steps of a schedule.
class PipelineStep {
 public:
  PipelineStep(Simulation& simulation, const Pipeline& pipeline, const GroupGraph& group, const std::vector<StageWork>& work,
               const PipelineSchedule& schedule)
      : simulation_(simulation), machine_(simulation.machine()), work_(work), schedule_(schedule), passes_(schedule.steps) {
    for (const StageSend& s : pipeline.sends) sent_[{s.from, s.to, s.time}] += bytes_of(group.graph.value(s.value).type);
    place_.assign(schedule.stages * schedule.all_micro_batches(), 0);
    processes_.resize(schedule.stages);
    for (std::uint32_t p = 0; p < schedule.processes.size(); ++p)
      for (const PipelineAction& a : schedule.processes[p])
        if (a.kind == ActionKind::kForward) {
          place_[a.stage * schedule.all_micro_batches() + a.micro_batch] = p;
          processes_[a.stage].insert(p);
        }
    last_backward_.resize(schedule.processes.size());
  }

  // Returns the tasks of the backward passes of each step.
  const std::vector<std::vector<TaskName>>& put() {
    std::uint32_t block = 1;
    for (const Event& event : in_time()) {
      BlockMaker maker(machine_, block);
      const PipelineAction& a = schedule_.processes[event.at.process][event.at.index];
      if (event.is_message)
        send(event.at.process, a, maker);
      else
        add(event.at.process, a, maker);
      simulation_.set_block(block++, maker.take());
    }
    // Given values are there all the time, of what training changes in as many versions as passes read.
    BlockMaker given(machine_, 0);
    for (std::uint32_t p = 0; p < schedule_.processes.size(); ++p) given.buffer(given_bytes(p), {p}, std::nullopt, {});
    simulation_.set_block(0, given.take());
    return passes_;
  }

 private:
  // An action, or the messages with its results.
  struct Event {
    double time = 0;
    std::size_t number = 0;
    bool is_message = false;
    ActionPlace at;
  };

  // In the order in which actions begin and messages are sent, where these take no time: processes send in it, too.
  std::vector<Event> in_time() const {
    ScheduleTimes times;
    for (const StageWork& w : work_) times.stages.push_back({w.forward, w.backward, w.weights, w.after});
    const auto starts = time_schedule(schedule_, times).starts;
    const std::vector<ActionPlace> order = check_schedule(schedule_).order;
    std::vector<Event> events;
    for (std::size_t n = 0; n < order.size(); ++n) {
      const ActionPlace at = order[n];
      const PipelineAction& a = schedule_.processes[at.process][at.index];
      const double start = starts[at.process][at.index];
      events.push_back({start, n, false, at});
      if (a.kind == ActionKind::kForward || a.kind == ActionKind::kBackward)
        events.push_back({start + action_seconds(schedule_, times, a), n, true, at});
    }
    std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
      return std::tie(a.time, a.number, a.is_message) < std::tie(b.time, b.number, b.is_message);
    });
    return events;
  }

  double given_bytes(std::uint32_t p) const {
    double bytes = 0;
    for (std::uint32_t s = 0; s < schedule_.stages; ++s) {
      if (!processes_[s].contains(p)) continue;
      PipelineSchedule alone = schedule_;
      for (auto& list : alone.processes) std::erase_if(list, [&](const PipelineAction& a) { return a.stage != s; });
      const double versions = static_cast<double>(std::max<std::size_t>(most_versions(alone)[p], 1));
      const StageWork& w = work_[s];
      bytes += w.given_bytes + (versions - 1) * w.read_bytes + w.sum_bytes +
               w.data_bytes * static_cast<double>(schedule_.micro_batches) / static_cast<double>(processes_[s].size());
    }
    return bytes;
  }

  std::uint32_t process_of(std::uint32_t stage, std::uint32_t micro_batch) const {
    return place_[stage * schedule_.all_micro_batches() + micro_batch];
  }

  void add(std::uint32_t p, const PipelineAction& a, BlockMaker& maker) {
    switch (a.kind) {
      case ActionKind::kForward:
        return forward(p, a, maker);
      case ActionKind::kBackward:
        return backward(p, a, maker);
      case ActionKind::kWeights: {
        const StageWork& w = work_[a.stage];
        const TaskName task = maker.compute_for(to_string(a), {p}, w.weights, waits(p, a.stage));
        maker.buffer(w.weights_peak, {p}, task, {task});
        end_of_weights(p, a, task, maker);
        return;
      }
      case ActionKind::kUpdate:
        return update(p, a, maker);
    }
  }

  // Messages to a stage of a process that belong to no micro-batch.
  Waits waits(std::uint32_t p, std::uint32_t stage) {
    Waits result = std::move(once_[{p, stage}]);
    once_[{p, stage}].clear();
    return result;
  }

  void forward(std::uint32_t p, const PipelineAction& a, BlockMaker& maker) {
    const StageWork& w = work_[a.stage];
    Waits after = waits(p, a.stage);
    if (begun_.insert({p, a.stage, a.micro_batch / schedule_.micro_batches}).second) {
      if (w.before > 0) maker.compute_for("before " + std::to_string(a.stage), {p}, w.before, after);
      const TaskName begun = maker.compute_for("begin " + std::to_string(a.stage), {p}, 0, after);
      send_once(p, a.stage, SendTime::kBefore, begun, maker);
    }
    Waits& message = forward_[{a.stage, a.micro_batch}];
    std::vector<TaskName> received;
    for (const Wait& wait : message) received.push_back(wait.task);
    after.insert(after.end(), message.begin(), message.end());
    const TaskName task = maker.compute_for(to_string(a), {p}, w.forward, after);
    if (!received.empty()) maker.buffer(w.received_bytes, {p}, received.front(), {task});
    forward_.erase({a.stage, a.micro_batch});
    maker.buffer(w.forward_peak, {p}, task, {task});
    started_[{a.stage, a.micro_batch}] = task;
  }

  // To all stages that wait for what a pass has computed.
  void send(std::uint32_t p, const PipelineAction& a, BlockMaker& maker) {
    const bool is_forward = a.kind == ActionKind::kForward;
    const SendTime time = is_forward ? SendTime::kForward : SendTime::kBackward;
    const TaskName task = (is_forward ? started_ : went_back_).at({a.stage, a.micro_batch});
    for (std::uint32_t to = 0; to < schedule_.stages; ++to) {
      const auto sent = sent_.find({a.stage, to, time});
      if (sent == sent_.end()) continue;
      const std::uint32_t q = process_of(to, a.micro_batch);
      const std::string label = std::string(name(time)) + " " + std::to_string(a.stage) + " -> " + std::to_string(to);
      (is_forward ? forward_ : backward_)[{to, a.micro_batch}].push_back(
          q == p ? task : maker.send(label, p, q, sent->second, {task}));
    }
  }

  void backward(std::uint32_t p, const PipelineAction& a, BlockMaker& maker) {
    const StageWork& w = work_[a.stage];
    const bool together = schedule_.gradients == GradientActions::kTogether;
    Waits after = waits(p, a.stage);
    Waits& message = backward_[{a.stage, a.micro_batch}];
    after.insert(after.end(), message.begin(), message.end());
    backward_.erase({a.stage, a.micro_batch});
    const TaskName task = maker.compute_for(to_string(a), {p}, w.backward + (together ? w.weights : 0), after);
    maker.buffer(together ? std::max(w.backward_peak, w.weights_peak) + w.gradient_bytes : w.backward_peak, {p}, task, {task});
    const TaskName began = started_.at({a.stage, a.micro_batch});
    maker.buffer(w.held_for_backward + (together ? w.held_for_weights : 0), {p}, began, {task});
    went_back_[{a.stage, a.micro_batch}] = task;
    if (together) end_of_weights(p, a, task, maker);
  }

  void end_of_weights(std::uint32_t p, const PipelineAction& a, TaskName task, BlockMaker& maker) {
    const StageWork& w = work_[a.stage];
    last_backward_[p][a.stage] = task;
    passes_[a.micro_batch / schedule_.micro_batches].push_back(task);
    if (schedule_.gradients == GradientActions::kTogether) return;
    maker.buffer(w.held_for_weights, {p}, started_.at({a.stage, a.micro_batch}), {task});
    maker.buffer(w.gradient_bytes, {p}, went_back_.at({a.stage, a.micro_batch}), {task});
  }

  // Processes that have the same stage add up their sums.
  void update(std::uint32_t p, const PipelineAction& a, BlockMaker& maker) {
    const StageWork& w = work_[a.stage];
    Waits after = waits(p, a.stage);
    const std::set<std::uint32_t>& all = processes_[a.stage];
    const std::size_t number = updates_[{p, a.stage}]++;
    if (all.size() > 1) {
      const auto [sum, is_new] = joined_.try_emplace({a.stage, number});
      if (is_new) {
        Waits made;
        for (const std::uint32_t q : all) made.push_back(last_backward_[q].at(a.stage));
        sum->second = maker.collective("sums of stage " + std::to_string(a.stage),
                                       {CollectiveKind::kAllReduce, {Devices(all.begin(), all.end())}, w.sum_bytes}, made);
      }
      after.insert(after.end(), sum->second.begin(), sum->second.end());
    }
    const TaskName task = maker.compute_for(to_string(a), {p}, w.after, after);
    maker.buffer(w.after_peak, {p}, task, {task});
    send_once(p, a.stage, SendTime::kAfter, task, maker);
  }

  // From one process of the stage to all that have the other stage and not this one.
  void send_once(std::uint32_t p, std::uint32_t stage, SendTime time, TaskName made, BlockMaker& maker) {
    if (p != *processes_[stage].begin()) return;
    for (std::uint32_t to = 0; to < schedule_.stages; ++to) {
      const auto sent = sent_.find({stage, to, time});
      if (sent == sent_.end()) continue;
      for (const std::uint32_t q : processes_[to])
        if (!processes_[stage].contains(q))
          once_[{q, to}].push_back(maker.send(
              std::string(name(time)) + " " + std::to_string(stage) + " -> " + std::to_string(to), p, q, sent->second, {made}));
    }
  }

  Simulation& simulation_;
  const Machine& machine_;
  const std::vector<StageWork>& work_;
  const PipelineSchedule& schedule_;
  std::vector<std::vector<TaskName>> passes_;                                  // backward ones by step
  std::map<std::tuple<std::uint32_t, std::uint32_t, SendTime>, double> sent_;  // bytes by stages
  std::vector<std::uint32_t> place_;                                           // process, by stage and micro-batch
  std::vector<std::set<std::uint32_t>> processes_;                             // by stage
  using MicroBatchOfStage = std::pair<std::uint32_t, std::uint32_t>;
  std::map<MicroBatchOfStage, Waits> forward_, backward_;  // messages that are on their way
  std::map<MicroBatchOfStage, TaskName> started_, went_back_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Waits> once_;  // by process and stage
  std::set<std::tuple<std::uint32_t, std::uint32_t, std::size_t>> begun_;
  std::vector<std::map<std::uint32_t, TaskName>> last_backward_;  // by process and stage
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> updates_;
  std::map<std::pair<std::uint32_t, std::size_t>, Waits> joined_;
};

}  // namespace

PipelineTimes simulate_pipeline(Simulation& simulation, const Pipeline& pipeline, const GroupGraph& group,
                                const MicroBatchRoles& roles, const OperatorSeconds& seconds, bool alone) {
  const std::vector<StageWork> work = stage_work(simulation.machine(), pipeline, group, roles, seconds);
  const bool trains = pipeline.schedule.gradients != GradientActions::kNone;
  const PipelineSchedule schedule = alone                                    ? first_step(pipeline.schedule)
                                    : trains && pipeline.schedule.steps == 1 ? repeated(pipeline.schedule, kSimulatedSteps)
                                                                             : pipeline.schedule;
  const auto passes = PipelineStep(simulation, pipeline, group, work, schedule).put();
  simulation.run();
  PipelineTimes result;
  result.steps = schedule.steps;
  result.seconds = simulation.seconds();
  const auto end = [&](const std::vector<TaskName>& tasks) {
    double last = 0;
    for (const TaskName task : tasks) last = std::max(last, simulation.times(task).end);
    return last;
  };
  if (schedule.steps > 1) result.seconds = (end(passes.back()) - end(passes.front())) / static_cast<double>(schedule.steps - 1);
  const StepTotals all = totals(simulation);
  double busy = 0;
  for (std::size_t p = 0; p < schedule.processes.size(); ++p) busy += all.computing_seconds[p];
  busy /= static_cast<double>(schedule.steps * schedule.processes.size());
  result.bubble = result.seconds > 0 ? std::max(0.0, 1 - busy / result.seconds) : 0;
  return result;
}

}  // namespace rewright::plans
