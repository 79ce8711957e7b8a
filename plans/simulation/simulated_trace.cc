#include "plans/simulation/simulated_trace.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace rewright::plans {

namespace {

class TraceMaker {
 public:
  TraceMaker(const Simulation& simulation, std::span<const std::uint32_t> devices)
      : simulation_(simulation),
        machine_(simulation.machine()),
        shown_(devices.begin(), devices.end()),
        links_process_(static_cast<std::uint32_t>(machine_.devices()) + 1) {
    const std::vector<TaskName> path = simulation.critical_path();
    critical_.insert(path.begin(), path.end());
    for (std::uint32_t t = 0; t < simulation.graph().numbers(); ++t)
      if (simulation.graph()[t].exists) in_order_.push_back(t);
    std::sort(in_order_.begin(), in_order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      const TaskTimes x = simulation.times_of(a), y = simulation.times_of(b);
      return std::tie(x.start, simulation.graph()[a].name) < std::tie(y.start, simulation.graph()[b].name);
    });
  }

  Trace trace() {
    for (const std::uint32_t t : in_order_) {
      add_on_devices(t);
      add_on_links(t);
    }
    add_arrows();
    return std::move(trace_);
  }

 private:
  bool is_shown(std::uint32_t device) const { return shown_.empty() || shown_.contains(device); }
  bool is_shown(const Task& task) const {
    const auto shown = [&](std::uint32_t device) { return is_shown(device); };
    if (shown_.empty() || std::ranges::any_of(task.devices, shown)) return true;
    return std::ranges::any_of(task.sent, [&](const auto& part) { return is_shown(part.first); });
  }

  TraceEvent event(std::uint32_t t) const {
    const TaskGraph::Entry& entry = simulation_.graph()[t];
    const TaskTimes times = simulation_.times_of(t);
    TraceEvent result{.name = entry.task.label, .start = times.start, .seconds = times.end - times.start};
    result.category = entry.task.queue == DeviceQueue::kCompute ? "computing" : "exchange";
    result.facts = {{"task", std::to_string(entry.name.block) + "." + std::to_string(entry.name.index)}};
    const auto number = [&](const char* name, double value) {
      if (value > 0) result.facts.emplace_back(name, value);
    };
    number("operations", entry.task.operations);
    number("memory_bytes", entry.task.memory_bytes);
    number("bytes", entry.task.bytes);
    if (critical_.contains(entry.name)) result.facts.emplace_back("critical", "yes");
    return result;
  }

  void add_on_devices(std::uint32_t t) {
    const TaskGraph::Entry& entry = simulation_.graph()[t];
    if (entry.task.queue == DeviceQueue::kNone) return;
    TraceEvent e = event(t);
    e.thread = entry.task.queue == DeviceQueue::kCompute ? 1 : 2;
    for (const std::uint32_t device : entry.task.devices) {
      if (!is_shown(device)) continue;
      e.process = device + 1;
      if (named_.emplace(e.process, 0).second) trace_.name_process(e.process, "device " + std::to_string(device));
      if (named_.emplace(e.process, e.thread).second)
        trace_.name_thread(e.process, e.thread, e.thread == 1 ? "computing" : "exchanges");
      trace_.add(e);
      if (critical_.contains(entry.name)) drawn_.try_emplace(entry.name, e);
    }
  }

  void add_on_links(std::uint32_t t) {
    const TaskGraph::Entry& entry = simulation_.graph()[t];
    if (entry.task.bytes <= 0 || !is_shown(entry.task)) return;
    TraceEvent e = event(t);
    e.process = links_process_;
    e.start = simulation_.times_of(t).sending;
    e.seconds = simulation_.times_of(t).end - e.start;
    if (named_.emplace(e.process, 0).second) trace_.name_process(e.process, "links");
    for (const LinkUse& use : entry.task.uses) {
      e.thread = row_of(use.link, e.start, e.start + e.seconds);
      trace_.add(e);
      if (critical_.contains(entry.name)) drawn_.try_emplace(entry.name, e);
    }
  }

  // Messages on a link at the same time have rows of their own.
  std::uint32_t row_of(LinkNumber link, double start, double end) {
    std::vector<Row>& rows = rows_[link];
    auto row = std::ranges::find_if(rows, [&](const Row& r) { return r.free_from <= start; });
    if (row == rows.end()) {
      rows.push_back({++last_row_, 0});
      row = std::prev(rows.end());
      const std::string beside = rows.size() > 1 ? " (" + std::to_string(rows.size()) + ")" : "";
      trace_.name_thread(links_process_, row->thread, machine_.link_name(link) + beside);
    }
    row->free_from = end;
    return row->thread;
  }

  void add_arrows() {
    const TraceEvent* before = nullptr;
    for (const TaskName task : simulation_.critical_path()) {
      const auto here = drawn_.find(task);
      if (here == drawn_.end()) continue;
      if (before) trace_.arrow(*before, here->second);
      before = &here->second;
    }
  }

  struct Row {
    std::uint32_t thread;
    double free_from;
  };
  const Simulation& simulation_;
  const Machine& machine_;
  std::set<std::uint32_t> shown_;
  std::set<TaskName> critical_;
  std::uint32_t links_process_, last_row_ = 0;
  std::vector<std::uint32_t> in_order_;  // tasks by their starts
  Trace trace_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> named_;
  std::map<TaskName, TraceEvent> drawn_;  // of the critical path
  std::map<LinkNumber, std::vector<Row>> rows_;
};

}  // namespace

Trace simulated_trace(const Simulation& simulation, std::span<const std::uint32_t> devices) {
  return TraceMaker(simulation, devices).trace();
}

}  // namespace rewright::plans
