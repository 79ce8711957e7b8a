#include "plans/execution/pipeline_tasks.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace rewright::plans {

namespace {

class FactFinder {
 public:
  FactFinder(const Pipeline& pipeline, const GroupGraph& group, const MicroBatchRoles& roles)
      : pipeline_(pipeline),
        group_(group),
        graph_(group.graph),
        producers_(graph_.producers()),
        parts_(parts_of_stages(pipeline, graph_, roles)) {}

  TaskFacts find() {
    result_.sums.resize(pipeline_.schedule.stages);
    const bool apart = pipeline_.schedule.gradients == GradientActions::kApart;
    for (std::size_t n = 0; n < parts_.size(); ++n) {
      require_executable(n);
      constexpr TaskKind kKinds[] = {TaskKind::kBefore, TaskKind::kForward, TaskKind::kBackward, TaskKind::kWeights,
                                     TaskKind::kUpdate};
      TaskKind kind = kKinds[static_cast<std::size_t>(parts_[n])];
      if (kind == TaskKind::kWeights && !apart) kind = TaskKind::kBackward;
      result_.nodes.push_back(kind);
      if (is_sum(n)) result_.sums[pipeline_.nodes[n]].push_back(n);
    }
    find_late();
    return std::move(result_);
  }

 private:
  bool is_after(std::size_t n) const { return parts_[n] == StagePart::kAfter; }
  bool is_sum(std::size_t n) const { return is_after(n) && group_.exchanges.contains(n); }

  [[noreturn]] void refuse(std::size_t n, const std::string& why) const {
    throw Error(ErrorCode::kUnsupported, described_node(graph_, n) + " cannot be executed by a pipeline: " + why);
  }

  void require_executable(std::size_t n) const {
    const Node& node = *graph_.nodes()[n];
    const auto exchange = group_.exchanges.find(n);
    if (exchange == group_.exchanges.end()) {
      if (!node.op) refuse(n, node.opaque_reason);
      if (node.op->random()) refuse(n, "each stage would draw random numbers of its own");
      return;
    }
    const auto kind = exchange->second.exchange;
    if (kind != Exchange::kNone && kind != Exchange::kAllReduce && kind != Exchange::kAllGather)
      refuse(n, "micro-batches would need parts of each other");
    const std::int32_t maker = producers_[node.inputs.at(0)];
    if (kind == Exchange::kNone && maker >= 0 && parts_[static_cast<std::size_t>(maker)] != StagePart::kBefore)
      refuse(n, "it takes a part of what a micro-batch computes");
    if (kind != Exchange::kNone && maker >= 0 && parts_[static_cast<std::size_t>(maker)] == StagePart::kAfter)
      refuse(n, "micro-batches are computed again when all of them are done");
  }

  // Nodes that no new weight needs, and that read sums of other stages, wait until the schedule is done.
  void find_late() {
    const auto nodes = graph_.nodes();
    std::set<ValueId> needed;
    for (const auto& [output, given] : group_.replaced) needed.insert(graph_.outputs()[output].value);
    std::vector<bool> is_needed(nodes.size(), false);
    for (std::size_t n = nodes.size(); n-- > 0;) {
      if (!is_after(n)) continue;
      for (const ValueId v : nodes[n]->outputs) is_needed[n] = is_needed[n] || needed.contains(v);
      if (is_needed[n]) needed.insert(nodes[n]->inputs.begin(), nodes[n]->inputs.end());
    }
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      if (!is_after(n) || is_sum(n)) continue;
      for (const ValueId v : nodes[n]->inputs) {
        if (v == kNoValue || producers_[v] < 0) continue;
        const auto maker = static_cast<std::size_t>(producers_[v]);
        if (!is_after(maker)) continue;
        const std::uint32_t from = pipeline_.nodes[maker], to = pipeline_.nodes[n];
        if (from != to && is_needed[n] != (from > to)) refuse(n, "a stage would wait for one that waits for it");
        if (!is_needed[n] && (from != to || result_.nodes[maker] == TaskKind::kEnd)) result_.nodes[n] = TaskKind::kEnd;
      }
    }
  }

  const Pipeline& pipeline_;
  const GroupGraph& group_;
  const Graph& graph_;
  const std::vector<std::int32_t> producers_;
  const std::vector<StagePart> parts_;
  TaskFacts result_;
};

class TaskLister {
 public:
  TaskLister(const Pipeline& pipeline, const GroupGraph& group, const TaskFacts& facts)
      : pipeline_(pipeline),
        schedule_(pipeline.schedule),
        group_(group),
        facts_(facts),
        producers_(group.graph.producers()),
        users_(group.graph.users()) {}

  PipelineTasks list() {
    result_.processes.resize(schedule_.stages);
    std::vector<std::set<std::uint32_t>> processes(schedule_.stages);
    for (std::uint32_t p = 0; p < count(); ++p)
      for (const PipelineAction& a : schedule_.processes[p]) {
        processes[a.stage].insert(p);
        if (a.kind == ActionKind::kForward) place_[{a.stage, a.micro_batch}] = p;
      }
    for (std::size_t s = 0; s < schedule_.stages; ++s) result_.processes[s].assign(processes[s].begin(), processes[s].end());
    count_updates();
    for (std::uint32_t step = 0; step < schedule_.steps; ++step) {
      auto& all = result_.steps.emplace_back();
      update_of_.clear();
      for (std::uint32_t p = 0; p < count(); ++p) all.push_back({tasks_of(p, step), {}});
      for (std::uint32_t p = 0; p < count(); ++p) add_sends(p, step, all[p]);
      require_progress(all);
    }
    return std::move(result_);
  }

 private:
  std::uint32_t count() const { return static_cast<std::uint32_t>(schedule_.processes.size()); }
  bool trains() const { return schedule_.gradients != GradientActions::kNone; }
  bool has(std::uint32_t p, std::uint32_t stage) const {
    return std::ranges::find(result_.processes[stage], p) != result_.processes[stage].end();
  }
  std::vector<std::uint32_t> stages_of(std::uint32_t p) const {
    std::vector<std::uint32_t> result;
    for (std::uint32_t s = 0; s < schedule_.stages; ++s)
      if (has(p, s)) result.push_back(s);
    return result;
  }

  void count_updates() {
    if (!trains()) return;
    std::optional<std::size_t> updates;
    for (const auto& list : schedule_.processes) {
      std::map<std::uint32_t, std::size_t> counts;
      for (const PipelineAction& a : list) counts[a.stage] += a.kind == ActionKind::kUpdate;
      for (const auto& [stage, number] : counts)
        if (number != updates.value_or(number) || number % schedule_.steps != 0)
          throw Error(ErrorCode::kUnsupported, "stage " + std::to_string(stage) + " has other updates in a step than others");
        else
          updates = number;
    }
    result_.updates = updates.value_or(1) / schedule_.steps;
  }

  std::vector<StageTask> tasks_of(std::uint32_t p, std::uint32_t step) {
    std::vector<StageTask> tasks;
    const std::vector<std::uint32_t> stages = stages_of(p);
    const auto once = [&](TaskKind kind, std::uint32_t number) {
      for (const std::uint32_t s : stages) tasks.push_back({kind, s, number, 0});
    };
    once(TaskKind::kBefore, kGiven), once(TaskKind::kBefore, kComputed);
    std::map<std::uint32_t, std::uint32_t> done;  // updates by stage, of all steps
    const auto m = static_cast<std::uint32_t>(schedule_.micro_batches), updates = static_cast<std::uint32_t>(result_.updates);
    for (const PipelineAction& a : schedule_.processes[p]) {
      if (a.kind == ActionKind::kUpdate) {
        const std::uint32_t number = done[a.stage]++;
        if (number / updates == step) tasks.push_back({TaskKind::kUpdate, a.stage, number % updates, 0});
        continue;
      }
      if (a.micro_batch / m != step) continue;
      const auto kind = static_cast<TaskKind>(1 + static_cast<std::size_t>(a.kind));
      tasks.push_back({kind, a.stage, a.micro_batch % m, static_cast<int>(a.version) - static_cast<int>(step * updates)});
      note_update(a, done[a.stage], step);
    }
    // Sums of a higher stage's gradients may belong to weights of a lower one.
    for (std::size_t n = 0; n < tasks.size();) {
      std::size_t end = n + 1;
      while (tasks[n].kind == TaskKind::kUpdate && end < tasks.size() && tasks[end].kind == TaskKind::kUpdate) ++end;
      std::stable_sort(tasks.begin() + static_cast<std::ptrdiff_t>(n), tasks.begin() + static_cast<std::ptrdiff_t>(end),
                       [](const StageTask& a, const StageTask& b) {
                         return a.number < b.number || (a.number == b.number && a.stage > b.stage);
                       });
      n = end;
    }
    if (!trains()) once(TaskKind::kUpdate, 0);
    for (std::uint32_t n = 0; n < updates; ++n) once(TaskKind::kEnd, n);
    return tasks;
  }

  // The update that a micro-batch's gradients enter is the same in all stages.
  void note_update(const PipelineAction& a, std::uint32_t done, std::uint32_t step) {
    const std::size_t last = static_cast<std::size_t>(schedule_.gradients);
    if (static_cast<std::size_t>(a.kind) != last) return;
    const std::uint32_t i = a.micro_batch % static_cast<std::uint32_t>(schedule_.micro_batches);
    const std::uint32_t number = trains() ? done - step * static_cast<std::uint32_t>(result_.updates) : 0;
    if (update_of_.try_emplace(i, number).first->second != number || number >= result_.updates)
      throw Error(ErrorCode::kUnsupported,
                  "micro-batch " + std::to_string(a.micro_batch) + " enters different updates in different stages");
  }

  // ---- Messages

  // Values that a stage sends another one.
  std::vector<const StageSend*> sent(std::uint32_t from, SendTime time) const {
    std::vector<const StageSend*> result;
    for (const StageSend& s : pipeline_.sends)
      if (s.from == from && s.time == time) result.push_back(&s);
    return result;
  }

  // To all processes of another stage: from one of this stage's, but for those that have both.
  void send_to_all(std::uint32_t p, const StageSend& s, TaskKind reader, std::uint32_t number,
                   std::vector<StageMessage>& sends) {
    for (const std::uint32_t q : result_.processes[s.to])
      if (q == p || (p == result_.processes[s.from].front() && !has(q, s.from)))
        sends.push_back({q, reader, s.to, number, s.value});
  }

  // When the node that makes a value is computed, and when nodes of a stage read it.
  TaskKind made(ValueId v) const { return facts_.nodes[static_cast<std::size_t>(producers_[v])]; }
  TaskKind first_read(ValueId v, std::uint32_t stage) const {
    TaskKind first = TaskKind::kEnd;
    for (const std::int32_t user : users_[v]) {
      const auto n = static_cast<std::size_t>(user);
      if (pipeline_.nodes[n] == stage) first = std::min(first, facts_.nodes[n]);
    }
    return first;
  }

  void add_sends(std::uint32_t p, std::uint32_t step, ProcessTasks& mine) {
    for (std::size_t t = 0; t < mine.tasks.size(); ++t) {
      const StageTask& task = mine.tasks[t];
      std::vector<StageMessage>& sends = mine.sends.emplace_back();
      switch (task.kind) {
        case TaskKind::kBefore:
          for (const StageSend* s : sent(task.stage, SendTime::kBefore))
            if ((producers_[s->value] >= 0) == (task.number == kComputed))
              send_to_all(p, *s, TaskKind::kBefore, kComputed, sends);
          break;
        case TaskKind::kForward:
        case TaskKind::kBackward: {
          const bool is_forward = task.kind == TaskKind::kForward;
          for (const StageSend* s : sent(task.stage, is_forward ? SendTime::kForward : SendTime::kBackward))
            sends.push_back({place_.at({s->to, task.number + step * static_cast<std::uint32_t>(schedule_.micro_batches)}),
                             task.kind, s->to, task.number, s->value});
          break;
        }
        case TaskKind::kWeights:
          break;
        case TaskKind::kUpdate:
        case TaskKind::kEnd:
          for (const StageSend* s : sent(task.stage, SendTime::kAfter))
            if (made(s->value) == task.kind) send_to_all(p, *s, first_read(s->value, s->to), task.number, sends);
          break;
      }
      if (is_last_pass(mine.tasks, t)) share_sums(p, mine.tasks, task, sends);
    }
  }

  // The last pass of its stage before an update.
  bool is_last_pass(const std::vector<StageTask>& tasks, std::size_t t) const {
    const auto kind = static_cast<TaskKind>(1 + static_cast<std::size_t>(schedule_.gradients));
    if (tasks[t].kind != kind) return false;
    for (std::size_t k = t + 1; k < tasks.size() && !(tasks[k].kind == TaskKind::kUpdate && tasks[k].stage == tasks[t].stage);
         ++k)
      if (tasks[k].kind == kind && tasks[k].stage == tasks[t].stage) return false;
    return true;
  }

  void share_sums(std::uint32_t p, const std::vector<StageTask>& tasks, const StageTask& last,
                  std::vector<StageMessage>& sends) {
    const std::uint32_t update = update_of_.at(last.number);
    for (const std::uint32_t q : result_.processes[last.stage]) {
      if (q == p) continue;
      for (const std::size_t n : facts_.sums[last.stage]) {
        const ValueId sum = group_.graph.nodes()[n]->outputs.at(0);
        if (group_.exchanges.at(n).exchange == Exchange::kAllReduce) {
          sends.push_back({q, TaskKind::kUpdate, last.stage, update, sum, true});
          continue;
        }
        for (const StageTask& t : tasks)
          if (t.kind == last.kind && t.stage == last.stage && update_of_.at(t.number) == update)
            sends.push_back({q, TaskKind::kUpdate, last.stage, update, sum, true, t.number});
      }
    }
  }

  // Processes go on as far as they can, as they do when the lists are executed.
  void require_progress(const std::vector<ProcessTasks>& all) const {
    using Waiting = std::tuple<std::uint32_t, TaskKind, std::uint32_t, std::uint32_t>;
    std::map<Waiting, std::size_t> missing;  // messages, by process and what waits for them
    for (std::uint32_t p = 0; p < all.size(); ++p)
      for (const auto& sends : all[p].sends)
        for (const StageMessage& m : sends) ++missing[{m.to, m.reader, m.stage, m.number}];
    std::vector<std::size_t> done(all.size(), 0);
    const auto waits = [&](std::uint32_t p) {
      const StageTask& t = all[p].tasks[done[p]];
      const auto found = missing.find({p, t.kind, t.stage, t.number});
      return found != missing.end() && found->second > 0;
    };
    for (bool moved = true; moved;) {
      moved = false;
      for (std::uint32_t p = 0; p < all.size(); ++p)
        for (; done[p] < all[p].tasks.size() && !waits(p); ++done[p], moved = true)
          for (const StageMessage& m : all[p].sends[done[p]]) --missing[{m.to, m.reader, m.stage, m.number}];
    }
    for (std::uint32_t p = 0; p < all.size(); ++p) {
      if (done[p] == all[p].tasks.size()) continue;
      const StageTask& t = all[p].tasks[done[p]];
      constexpr const char* kWhat[] = {"the beginning", "a forward pass", "a backward pass",
                                       "gradients",     "the update",     "the end"};
      throw Error(ErrorCode::kUnsupported, "process " + std::to_string(p) + " waits at " +
                                               kWhat[static_cast<std::size_t>(t.kind)] + " of stage " +
                                               std::to_string(t.stage) + " for a message of a process that waits for it");
    }
  }

  // At the beginning weights are sent first, and then, stage by stage, what is computed of them once.
  static constexpr std::uint32_t kGiven = 0, kComputed = 1;

  const Pipeline& pipeline_;
  const PipelineSchedule& schedule_;
  const GroupGraph& group_;
  const TaskFacts& facts_;
  const std::vector<std::int32_t> producers_;
  const std::vector<std::vector<std::int32_t>> users_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> place_;  // process, by stage and micro-batch of all steps
  std::map<std::uint32_t, std::uint32_t> update_of_;                        // by micro-batch of the step
  PipelineTasks result_;
};

}  // namespace

TaskFacts task_facts(const Pipeline& pipeline, const GroupGraph& group, const MicroBatchRoles& roles) {
  return FactFinder(pipeline, group, roles).find();
}

PipelineTasks pipeline_tasks(const Pipeline& pipeline, const GroupGraph& group, const TaskFacts& facts) {
  return TaskLister(pipeline, group, facts).list();
}

}  // namespace rewright::plans
