#include "plans/pipelines/named_schedules.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"

namespace rewright::plans {

namespace {

using ActionList = std::vector<PipelineAction>;

PipelineAction action_of(ActionKind kind, std::size_t stage, std::size_t micro_batch, std::size_t version = 0) {
  return {kind, static_cast<std::uint32_t>(stage), static_cast<std::uint32_t>(micro_batch),
          static_cast<std::uint32_t>(version)};
}
PipelineAction update_of(std::size_t stage) { return action_of(ActionKind::kUpdate, stage, 0); }

// All forward passes, then all backward passes.
void make_gpipe(const ScheduleSize& size, PipelineSchedule& schedule) {
  for (std::size_t p = 0; p < size.processes; ++p) {
    ActionList& list = schedule.processes[p];
    for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackward})
      for (std::size_t i = 0; i < size.micro_batches; ++i) list.push_back(action_of(kind, p, i));
    list.push_back(update_of(p));
  }
}

// As many forward passes as there are stages from here on, then backward and forward passes in turn.
void make_1f1b(const ScheduleSize& size, PipelineSchedule& schedule) {
  for (std::size_t p = 0; p < size.processes; ++p) {
    ActionList& list = schedule.processes[p];
    const std::size_t ahead = std::min(size.processes - p, size.micro_batches);
    for (std::size_t i = 0; i < ahead; ++i) list.push_back(action_of(ActionKind::kForward, p, i));
    for (std::size_t i = 0; i < size.micro_batches; ++i) {
      list.push_back(action_of(ActionKind::kBackward, p, i));
      if (i + ahead < size.micro_batches) list.push_back(action_of(ActionKind::kForward, p, i + ahead));
    }
    list.push_back(update_of(p));
  }
}

// Process r has the stages r, r + p, ...; micro-batches pass in groups of p through a chunk, then through the next one.
void make_interleaved(const ScheduleSize& size, PipelineSchedule& schedule) {
  const std::size_t p = size.processes, v = size.chunks, all = size.micro_batches * v;
  schedule.stages = p * v;
  for (std::size_t r = 0; r < p; ++r) {
    ActionList& list = schedule.processes[r];
    const auto forward = [&](std::size_t k) {
      const std::size_t chunk = k % (p * v) / p;
      list.push_back(action_of(ActionKind::kForward, chunk * p + r, k / (p * v) * p + k % p));
    };
    const auto backward = [&](std::size_t k) {
      const std::size_t chunk = v - 1 - k % (p * v) / p;
      list.push_back(action_of(ActionKind::kBackward, chunk * p + r, k / (p * v) * p + k % p));
    };
    const std::size_t ahead = std::min(all, 2 * (p - 1 - r) + (v - 1) * p);
    for (std::size_t k = 0; k < ahead; ++k) forward(k);
    for (std::size_t k = 0; k + ahead < all; ++k) forward(ahead + k), backward(k);
    for (std::size_t k = all - ahead; k < all; ++k) backward(k);
    for (std::size_t chunk = 0; chunk < v; ++chunk) list.push_back(update_of(chunk * p + r));
  }
}

// 1F1B without an end: an update behind each backward pass, and each micro-batch goes back with the weights that it came with.
void make_pipedream(const ScheduleSize& size, PipelineSchedule& schedule) {
  const std::size_t all = size.micro_batches * size.steps;
  schedule.steps = size.steps;
  for (std::size_t p = 0; p < size.processes; ++p) {
    ActionList& list = schedule.processes[p];
    const std::size_t ahead = std::min(size.processes - p, all);
    const auto version = [&](std::size_t i) { return i < ahead ? 0 : i - ahead + 1; };
    for (std::size_t i = 0; i < ahead; ++i) list.push_back(action_of(ActionKind::kForward, p, i));
    for (std::size_t i = 0; i < all; ++i) {
      list.push_back(action_of(ActionKind::kBackward, p, i, version(i)));
      list.push_back(update_of(p));
      if (i + ahead < all) list.push_back(action_of(ActionKind::kForward, p, i + ahead, version(i + ahead)));
    }
  }
}

// PipeDream with an update after each step's micro-batches, whose weights are read from the next step but one on. So there are
// two versions of them.
void make_pipedream_2bw(const ScheduleSize& size, PipelineSchedule& schedule) {
  const std::size_t m = size.micro_batches, all = m * size.steps;
  schedule.steps = size.steps;
  for (std::size_t p = 0; p < size.processes; ++p) {
    ActionList& list = schedule.processes[p];
    const std::size_t ahead = std::min(size.processes - p, all);
    const auto version = [&](std::size_t i) { return std::max<std::size_t>(i / m, 1) - 1; };
    for (std::size_t i = 0; i < ahead; ++i) list.push_back(action_of(ActionKind::kForward, p, i, version(i)));
    for (std::size_t i = 0; i < all; ++i) {
      list.push_back(action_of(ActionKind::kBackward, p, i, version(i)));
      if (i % m == m - 1) list.push_back(update_of(p));
      if (i + ahead < all) list.push_back(action_of(ActionKind::kForward, p, i + ahead, version(i + ahead)));
    }
  }
}

// Two pipelines in opposite directions: stage s of even micro-batches is on process s, of odd ones on p-1-s. As their actions
// take equally long, they interlock: in each unit of time every process does what it can, backward passes first and earlier
// micro-batches first. So it comes to the paper's schedule, and for more than p micro-batches to its direct concatenation.
void make_chimera(const ScheduleSize& size, PipelineSchedule& schedule) {
  const std::size_t p = size.processes, m = size.micro_batches;
  const auto process_of = [&](std::size_t stage, std::size_t i) { return i % 2 == 0 ? stage : p - 1 - stage; };
  // Actions that a process could do next: (backward first, micro-batch, deepest stage first).
  using Candidate = std::tuple<int, std::size_t, std::size_t>;
  std::vector<std::set<Candidate>> ready(p);
  std::vector<std::size_t> held(p, 0);
  std::size_t left = 2 * p * m;
  for (std::size_t i = 0; i < m; ++i) ready[process_of(0, i)].emplace(1, i, p - 1);
  while (left > 0) {
    std::vector<std::pair<std::size_t, Candidate>> begun;
    for (std::size_t r = 0; r < p; ++r)
      for (const Candidate& c : ready[r]) {
        if (std::get<0>(c) == 1 && held[r] >= p) continue;
        begun.emplace_back(r, c);
        break;
      }
    for (const auto& [r, c] : begun) {
      const auto [is_forward, i, height] = c;
      const std::size_t stage = p - 1 - height;
      ready[r].erase(c);
      --left;
      if (is_forward == 1) {
        schedule.processes[r].push_back(action_of(ActionKind::kForward, stage, i));
        ++held[r];
        if (stage + 1 < p)
          ready[process_of(stage + 1, i)].emplace(1, i, height - 1);
        else
          ready[r].emplace(0, i, height);
      } else {
        schedule.processes[r].push_back(action_of(ActionKind::kBackward, stage, i));
        --held[r];
        if (stage > 0) ready[process_of(stage - 1, i)].emplace(0, i, height + 1);
      }
    }
  }
  for (std::size_t r = 0; r < p; ++r) {
    schedule.processes[r].push_back(update_of(r));
    if (p - 1 - r != r) schedule.processes[r].push_back(update_of(p - 1 - r));
  }
}

// 1F1B, with the gradients of weights late: stage s is s micro-batches behind, so that all stages hold p micro-batches.
void make_zb_h1(const ScheduleSize& size, PipelineSchedule& schedule) {
  schedule.gradients = GradientActions::kApart;
  for (std::size_t p = 0; p < size.processes; ++p) {
    ActionList& list = schedule.processes[p];
    const std::size_t m = size.micro_batches, ahead = std::min(size.processes - p, m);
    std::size_t weights = 0;
    for (std::size_t i = 0; i < ahead; ++i) list.push_back(action_of(ActionKind::kForward, p, i));
    for (std::size_t i = 0; i < m; ++i) {
      list.push_back(action_of(ActionKind::kBackward, p, i));
      if (i >= p) list.push_back(action_of(ActionKind::kWeights, p, weights++));
      if (i + ahead < m) list.push_back(action_of(ActionKind::kForward, p, i + ahead));
    }
    while (weights < m) list.push_back(action_of(ActionKind::kWeights, p, weights++));
    list.push_back(update_of(p));
  }
}

// Process r has the stages r and 2p-1-r, so that a micro-batch passes the processes there and back.
void make_zb_v(const ScheduleSize& size, PipelineSchedule& schedule) {
  schedule.gradients = GradientActions::kApart;
  const std::size_t p = size.processes, m = std::max(size.micro_batches, 2 * p - 1);
  schedule.stages = 2 * p;
  for (std::size_t r = 0; r < p; ++r) {
    ActionList& list = schedule.processes[r];
    const std::size_t stages[] = {r, 2 * p - 1 - r};
    std::array<std::array<std::size_t, 2>, 3> done{};
    const auto next = [&](ActionKind kind, std::size_t chunk) {
      std::size_t& i = done[static_cast<std::size_t>(kind)][chunk];
      // The pattern has enough micro-batches for a steady state; those that there are not are left out.
      if (i < size.micro_batches) list.push_back(action_of(kind, stages[chunk], i));
      ++i;
    };
    const auto f = [&](std::size_t chunk) { next(ActionKind::kForward, chunk); };
    const auto b = [&](std::size_t chunk) { next(ActionKind::kBackward, chunk); };
    const auto w = [&](std::size_t chunk) { next(ActionKind::kWeights, chunk); };
    for (std::size_t k = 0; k < 2 * (p - r) - 1; ++k) f(0);
    for (std::size_t k = 0; k < r; ++k) f(1), f(0);
    for (std::size_t k = 0; k < p - r; ++k) f(1), b(1), w(1);
    while (done[0][1] < done[0][0] || done[0][0] < m) {
      if (done[0][0] < m) f(0);
      b(0), w(0), f(1), b(1), w(1);
    }
    for (std::size_t k = 0; k < r; ++k) b(0), b(1);
    for (std::size_t k = 0; k < p - r; ++k) b(0), w(0);
    while (done[2][1] < done[1][1]) w(1);
    while (done[2][0] < done[1][0]) w(0);
    for (const std::size_t stage : stages) list.push_back(update_of(stage));
  }
}

using MakeSchedule = void (*)(const ScheduleSize&, PipelineSchedule&);
struct NamedSchedule {
  const char* name;
  MakeSchedule make;
};
constexpr NamedSchedule kSchedules[] = {{"gpipe", make_gpipe},
                                        {"1f1b", make_1f1b},
                                        {"interleaved", make_interleaved},
                                        {"pipedream", make_pipedream},
                                        {"pipedream-2bw", make_pipedream_2bw},
                                        {"chimera", make_chimera},
                                        {"zb-h1", make_zb_h1},
                                        {"zb-v", make_zb_v}};

}  // namespace

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const NamedSchedule& s : kSchedules) names.emplace_back(s.name);
    return names;
  }();
  return kNames;
}

std::string why_no_schedule(const std::string& name, const ScheduleSize& size) {
  const std::string processes = std::to_string(size.processes), micro_batches = std::to_string(size.micro_batches);
  if (std::find(schedule_names().begin(), schedule_names().end(), name) == schedule_names().end()) {
    std::string all;
    for (const std::string& one : schedule_names()) all += (all.empty() ? "" : ", ") + one;
    return "there is no schedule \"" + name + "\": it is one of " + all;
  }
  if (size.processes < 1 || size.micro_batches < 1) return "a pipeline has at least one stage and one micro-batch";
  if (name == "interleaved" && size.chunks < 1) return "a process has at least one chunk of the model";
  if (name == "interleaved" && size.micro_batches % size.processes != 0)
    return "interleaved 1F1B needs micro-batches in groups of its " + processes + " processes, and " + micro_batches +
           " are no multiple";
  if (name == "chimera" && size.processes % 2 != 0)
    return "chimera's two directions need an even number of processes, not " + processes;
  if (name == "chimera" && size.micro_batches % 2 != 0)
    return "chimera's two directions need an even number of micro-batches, not " + micro_batches;
  if (name == "pipedream-2bw" && size.micro_batches < size.processes)
    return "pipedream-2bw needs at least as many micro-batches as processes: 2 versions of the weights are too few for " +
           micro_batches + " of " + processes;
  if (size.steps < 1) return "a schedule has at least one step";
  return {};
}

PipelineSchedule named_schedule(const std::string& name, const ScheduleSize& size) {
  if (const std::string why = why_no_schedule(name, size); !why.empty()) throw Error(ErrorCode::kUsage, why);
  PipelineSchedule schedule;
  schedule.name = name;
  schedule.stages = size.processes, schedule.micro_batches = size.micro_batches;
  schedule.processes.resize(size.processes);
  for (const NamedSchedule& s : kSchedules)
    if (name == s.name) s.make(size, schedule);
  return schedule;
}

}  // namespace rewright::plans
