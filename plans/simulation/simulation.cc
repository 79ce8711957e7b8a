#include "plans/simulation/simulation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "plans/simulation/engine.h"
#include "plans/simulation/memory_peaks.h"

namespace rewright::plans {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void require_task(const Task& task, const Machine& machine) {
  const auto bad = [&](const std::string& what) { return Error(ErrorCode::kUsage, what, "task '" + task.label + "'"); };
  const auto is_amount = [](double value) { return std::isfinite(value) && value >= 0; };
  if (!is_amount(task.seconds) || !is_amount(task.bytes)) throw bad("its seconds and bytes must be numbers from 0 up");
  if (!(task.most_bytes_per_second > 0)) throw bad("its rate must be above 0");
  if (task.bytes > 0 && task.uses.empty()) throw bad("its bytes move over no link");
  for (std::size_t n = 0; n < task.devices.size(); ++n) {
    if (task.devices[n] >= machine.devices()) throw bad("there is no device " + std::to_string(task.devices[n]));
    if (n > 0 && task.devices[n - 1] >= task.devices[n]) throw bad("its devices are not in order");
  }
  for (const LinkUse& use : task.uses)
    if (use.link >= machine.links().size() || !(use.messages > 0 && use.messages < kInfinity))
      throw bad("there is no such use of link " + std::to_string(use.link));
}

void require_buffer(const Buffer& buffer, const Machine& machine) {
  if (!std::isfinite(buffer.bytes) || buffer.bytes < 0)
    throw Error(ErrorCode::kUsage, "its bytes must be a number from 0 up", "a buffer");
  for (const std::uint32_t device : buffer.devices)
    if (device >= machine.devices()) throw Error(ErrorCode::kUsage, "there is no device " + std::to_string(device), "a buffer");
}

}  // namespace

Simulation::Simulation(const Machine& machine)
    : machine_(machine),
      engine_(std::make_unique<Engine>(machine, graph_)),
      memory_(std::make_unique<MemoryPeaks>(machine.devices(), graph_, *engine_)) {}

Simulation::~Simulation() = default;

void Simulation::set_block(std::uint32_t number, Block block) {
  for (const Task& task : block.tasks) require_task(task, machine_);
  for (const Buffer& buffer : block.buffers) require_buffer(buffer, machine_);
  graph_.set_block(number, std::move(block));
}

void Simulation::run() {
  const TaskChanges changes = graph_.commit();
  engine_->run(changes);
  memory_->changed(changes, engine_->touched());
  graph_.forget(changes.removed);
}

double Simulation::seconds() const {
  double last = 0;
  for (std::uint32_t t = 0; t < graph_.numbers(); ++t)
    if (graph_[t].exists) last = std::max(last, engine_->end(t));
  return last;
}

TaskTimes Simulation::times_of(std::uint32_t number) const {
  return {engine_->start(number), engine_->end(number), std::min(engine_->sending(number), engine_->end(number))};
}

TaskTimes Simulation::times(TaskName task) const {
  const std::optional<std::uint32_t> number = graph_.find(task);
  if (!number)
    throw Error(ErrorCode::kUsage, "is not there", "task " + std::to_string(task.block) + "." + std::to_string(task.index));
  return times_of(*number);
}

std::size_t Simulation::touched() const { return engine_->touched().size(); }

std::span<const double> Simulation::peak_bytes() { return memory_->peaks(); }

std::vector<TaskName> Simulation::critical_path() const {
  constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  const auto later = [&](std::uint32_t t,
                         std::uint32_t than) {  // of those that end at the same time, the one with the least name
    if (than == kNone || engine_->end(t) > engine_->end(than)) return t;
    return engine_->end(t) == engine_->end(than) && graph_[t].name < graph_[than].name ? t : than;
  };
  std::uint32_t at = kNone;
  for (std::uint32_t t = 0; t < graph_.numbers(); ++t)
    if (graph_[t].exists) at = later(t, at);
  std::vector<TaskName> path;
  while (at != kNone) {
    path.push_back(graph_[at].name);
    std::uint32_t last = kNone;
    for (const std::uint32_t t : graph_[at].before)
      if (engine_->end(t) == engine_->start(at)) last = later(t, last);
    at = last;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

double StepTotals::intensity() const {
  double work = 0, moved = 0;
  for (std::size_t d = 0; d < operations.size(); ++d) work += operations[d], moved += memory_bytes[d] + sent_bytes[d];
  return moved > 0 ? work / moved : 0;
}

StepTotals totals(const Simulation& simulation) {
  const std::size_t devices = simulation.machine().devices();
  const std::vector<double> none(devices);
  StepTotals result{
      simulation.seconds(), none, none, none, none, none, std::vector<double>(simulation.machine().links().size())};
  for (std::uint32_t t = 0; t < simulation.graph().numbers(); ++t) {
    if (!simulation.graph()[t].exists) continue;
    const Task& task = simulation.graph()[t].task;
    const TaskTimes times = simulation.times_of(t);
    for (const std::uint32_t d : task.devices) {
      result.operations[d] += task.operations;
      result.memory_bytes[d] += task.memory_bytes;
      if (task.queue == DeviceQueue::kCompute) result.computing_seconds[d] += times.end - times.start;
      if (is_exchanging(task.queue)) result.exchanging_seconds[d] += times.end - times.start;
    }
    for (const auto& [device, bytes] : task.sent) result.sent_bytes[device] += bytes;
    for (const LinkUse& use : task.uses) result.link_bytes[use.link] += use.messages * task.bytes;
  }
  return result;
}

}  // namespace rewright::plans
