#include "plans/simulation/testing/slow_simulation.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace rewright::testing {

namespace {

using namespace plans;

struct Running {
  TaskName name;
  const Task* task;
  double wait = 0, left = 0;  // seconds before the bytes, bytes
  bool moves() const { return wait <= 0 && left > 0 && !task->uses.empty(); }
};

// Raises the rates of all messages together, a little at a time, is how max-min fairness is defined; the steps are those at
// which something is full.
std::map<TaskName, double> fair_rates(const Machine& machine, const std::vector<Running>& all) {
  std::map<TaskName, double> rates;
  std::set<TaskName> rising;
  for (const Running& r : all)
    if (r.moves()) rates[r.name] = 0, rising.insert(r.name);
  while (!rising.empty()) {
    double step = std::numeric_limits<double>::infinity();
    std::map<LinkNumber, std::pair<double, double>> used;  // by all, and by those that rise
    for (const Running& r : all) {
      if (!r.moves()) continue;
      for (const LinkUse& use : r.task->uses) {
        used[use.link].first += use.messages * rates[r.name];
        if (rising.contains(r.name)) used[use.link].second += use.messages;
      }
      if (rising.contains(r.name)) step = std::min(step, r.task->most_bytes_per_second - rates[r.name]);
    }
    for (const auto& [link, use] : used)
      if (use.second > 0) step = std::min(step, (machine.links()[link].bytes_per_second - use.first) / use.second);
    for (const TaskName& name : rising) rates[name] += step;
    std::set<TaskName> left;
    for (const Running& r : all) {
      if (!rising.contains(r.name)) continue;
      bool is_free = rates[r.name] < r.task->most_bytes_per_second * (1 - 1e-12);
      for (const LinkUse& use : r.task->uses) {
        const double rate = machine.links()[use.link].bytes_per_second;
        is_free = is_free && used[use.link].first + step * used[use.link].second < rate * (1 - 1e-12);
      }
      if (is_free) left.insert(r.name);
    }
    rising = left;
  }
  return rates;
}

}  // namespace

std::map<TaskName, SlowTimes> simulate_slowly(const Machine& machine, const std::map<std::uint32_t, Block>& blocks) {
  std::map<TaskName, SlowTimes> times;
  std::map<TaskName, const Task*> tasks;
  for (const auto& [number, block] : blocks)
    for (std::size_t n = 0; n < block.tasks.size(); ++n) tasks[{number, static_cast<std::uint32_t>(n)}] = &block.tasks[n];
  for (const auto& [name, task] : tasks) times[name] = {};
  const auto may_start = [&](TaskName name, const Task& task) {
    for (const TaskName& other : task.after)
      if (times[other].end < 0) return false;
    if (task.queue == DeviceQueue::kNone) return true;
    for (const auto& [other, t] : tasks)
      if (other < name && have_queue_in_common(t->queue, task.queue) && times[other].end < 0)
        for (const std::uint32_t device : t->devices)
          if (std::ranges::find(task.devices, device) != task.devices.end()) return false;
    return true;
  };
  double now = 0;
  std::vector<Running> running;
  for (bool more = true; more;) {
    for (bool changed = true; changed;) {
      changed = false;
      for (const auto& [name, task] : tasks)
        if (times[name].start < 0 && may_start(name, *task)) {
          times[name].start = now;
          running.push_back({name, task, task->seconds, task->uses.empty() ? 0 : task->bytes});
          changed = true;
        }
      std::erase_if(running, [&](const Running& r) {
        if (r.wait > 0 || r.left > 0) return false;
        times[r.name].end = now;
        return changed = true;
      });
    }
    more = !running.empty();
    const std::map<TaskName, double> rates = fair_rates(machine, running);
    double step = std::numeric_limits<double>::infinity();
    for (const Running& r : running) step = std::min(step, r.moves() ? r.left / rates.at(r.name) : r.wait);
    if (more) now += step;
    for (Running& r : running) {
      double& left = r.moves() ? r.left : r.wait;
      const double moved = r.moves() ? step * rates.at(r.name) : step;
      left = left - moved <= 1e-12 * (r.moves() ? r.task->bytes : r.task->seconds) ? 0 : left - moved;
    }
  }
  return times;
}

}  // namespace rewright::testing
