#include "plans/simulation/block_maker.h"

#include <algorithm>
#include <map>
#include <set>

namespace rewright::plans {

namespace {

Devices in_order(Devices devices) {
  std::sort(devices.begin(), devices.end());
  return devices;
}

bool have_one_in_common(const Devices& a, const Devices& b) {
  return std::ranges::any_of(a, [&](std::uint32_t device) { return std::ranges::find(b, device) != b.end(); });
}

Devices devices_of(const Schedule& schedule) {
  Devices devices;
  for (const Phase& phase : schedule)
    for (const Message& m : phase.messages) devices.push_back(m.from), devices.push_back(m.to);
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  return devices;
}

}  // namespace

TaskName BlockMaker::add(Task task, const Waits& after) {
  for (const Wait& wait : after)
    if (wait.devices.empty() || have_one_in_common(wait.devices, task.devices)) task.after.push_back(wait.task);
  block_.tasks.push_back(std::move(task));
  return {number_, static_cast<std::uint32_t>(block_.tasks.size() - 1)};
}

TaskName BlockMaker::compute(std::string label, Devices devices, double operations, double bytes, const Waits& after) {
  Task task{.label = std::move(label), .queue = DeviceQueue::kCompute, .devices = in_order(std::move(devices))};
  task.seconds = machine_.seconds(operations, bytes);
  task.operations = operations, task.memory_bytes = bytes;
  return add(std::move(task), after);
}

TaskName BlockMaker::compute_for(std::string label, Devices devices, double seconds, const Waits& after) {
  Task task{.label = std::move(label), .queue = DeviceQueue::kCompute, .devices = in_order(std::move(devices))};
  task.seconds = seconds;
  return add(std::move(task), after);
}

TaskName BlockMaker::send(std::string label, std::uint32_t from, std::uint32_t to, double bytes, const Waits& after) {
  Task task{.label = std::move(label), .queue = DeviceQueue::kExchange, .devices = in_order({from, to})};
  if (from == to) task.devices = {from};
  put_on_route({from, to, bytes}, task);
  return add(std::move(task), after);
}

void BlockMaker::put_on_route(const Message& m, Task& task) const {
  if (m.from == m.to || !(m.bytes > 0)) return;
  for (const LinkNumber link : machine_.route(m.from, m.to)) {
    task.seconds += machine_.links()[link].latency;
    task.uses.push_back({link, 1});
  }
  task.bytes = m.bytes;
  task.sent = {{m.from, m.bytes}};
}

Waits BlockMaker::collective(const std::string& label, const Collective& collective, const Waits& after,
                             ExchangeDetail detail) {
  return exchange(label, device_schedule(collective), after, detail);
}

Waits BlockMaker::exchange(const std::string& label, const Schedule& schedule, const Waits& after, ExchangeDetail detail) {
  if (schedule.empty()) return after;
  if (detail == ExchangeDetail::kMessages) return messages(label, schedule, after);
  const ExchangePrice how = price(machine_, schedule);
  if (detail == ExchangeDetail::kExact && !how.is_exact) return messages(label, schedule, after);
  return priced(label, how, schedule, after);
}

Waits BlockMaker::priced(const std::string& label, const ExchangePrice& price, const Schedule& schedule, const Waits& after) {
  Task task{.label = label, .queue = exchange_queue(), .devices = devices_of(schedule)};
  task.seconds = machine_.exchange_seconds() + price.latency;
  task.sent = price.sent;
  if (!price.uses.empty()) {
    task.bytes = price.bytes;
    task.most_bytes_per_second = price.bytes_per_second;
    task.uses = price.uses;
  }
  return {add(std::move(task), after)};
}

// Between a task in which a process's turn comes and one in which it has its part, the messages: each starts when the sender
// and the receiver have ended their messages of the round before, as they exchange those of a round at once
// (Communicator::exchange).
Waits BlockMaker::messages(const std::string& label, const Schedule& schedule, const Waits& after) {
  const Devices devices = devices_of(schedule);
  std::map<std::uint32_t, std::vector<TaskName>> last;
  const auto mark = [&](const std::string& what, std::uint32_t device, double seconds, const Waits& before) {
    return add({.label = what, .queue = exchange_queue(), .devices = {device}, .seconds = seconds}, before);
  };
  for (const std::uint32_t device : devices)
    last[device] = {mark(label + " begins", device, machine_.exchange_seconds(), after)};
  std::size_t number = 0;
  for (const Phase& phase : schedule)
    for (std::size_t round = 0; round < phase.rounds; ++round, ++number) {
      std::map<std::uint32_t, std::vector<TaskName>> next;
      for (const Message& m : phase.messages) {
        std::set<TaskName> before(last[m.from].begin(), last[m.from].end());
        before.insert(last[m.to].begin(), last[m.to].end());
        Task task{.label = label + " " + std::to_string(m.from) + " -> " + std::to_string(m.to)};
        put_on_route(m, task);
        const TaskName name = add(std::move(task), Waits(before.begin(), before.end()));
        next[m.from].push_back(name);
        if (m.to != m.from) next[m.to].push_back(name);
      }
      for (auto& [device, names] : next) last[device] = std::move(names);
    }
  Waits result;
  for (const std::uint32_t device : devices) {
    const TaskName end = mark(label + " ends", device, 0, Waits(last[device].begin(), last[device].end()));
    result.push_back({end, {device}});
  }
  return result;
}

void BlockMaker::buffer(double bytes, Devices devices, std::optional<TaskName> from, std::vector<TaskName> until) {
  block_.buffers.push_back({bytes, in_order(std::move(devices)), from, std::move(until)});
}

}  // namespace rewright::plans
