// The tasks of a step, as a search changes them: blocks of tasks (an operator's, or a change of layout's), replaced one at a
// time.
//
//   TaskGraph graph;
//   graph.set_block(0, block);              // most easily made by a BlockMaker
//   const TaskChanges changes = graph.commit();
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/namespaces.h"
#include "plans/machines/network.h"

namespace rewright::plans {

// A task by its block and its place in it. This is the order in which devices execute what their queues hold.
struct TaskName {
  std::uint32_t block = 0, index = 0;
  friend auto operator<=>(const TaskName&, const TaskName&) = default;
};

// A queue of a device executes its tasks one after the other, in the order of their names, beside what other queues do. A
// process computes in one thread and exchanges in another (training's WorkQueue), both in the order of the plan. A task for
// both stands in the two queues at once: an exchange that takes the device's time (Machine::exchanges_beside).
enum class DeviceQueue : std::uint8_t { kNone, kCompute, kExchange, kBoth };
inline bool is_computing(DeviceQueue queue) { return queue == DeviceQueue::kCompute || queue == DeviceQueue::kBoth; }
inline bool is_exchanging(DeviceQueue queue) { return queue == DeviceQueue::kExchange || queue == DeviceQueue::kBoth; }
inline bool have_queue_in_common(DeviceQueue a, DeviceQueue b) {
  return (is_computing(a) && is_computing(b)) || (is_exchanging(a) && is_exchanging(b));
}

// Messages that pass a link at the same time, all at one rate; may be a mean.
struct LinkUse {
  LinkNumber link = 0;
  double messages = 1;
  friend bool operator==(const LinkUse&, const LinkUse&) = default;
};

using Devices = std::vector<std::uint32_t>;

struct Task {
  std::string label = {};
  DeviceQueue queue = DeviceQueue::kNone;
  Devices devices = {};  // in all of whose queues it stands; ascending
  // A task takes first so many seconds (of computing, or until a message's first byte arrives), then so many bytes at the
  // rate that the links give (Simulation), but at most at this one. Without links, no bytes.
  double seconds = 0, bytes = 0, most_bytes_per_second = std::numeric_limits<double>::infinity();
  std::vector<LinkUse> uses = {};    // each link once
  std::vector<TaskName> after = {};  // it waits for these, which have lesser names
  // For totals only: work of each device, and bytes sent by device.
  double operations = 0, memory_bytes = 0;
  std::vector<std::pair<std::uint32_t, double>> sent = {};
  friend bool operator==(const Task&, const Task&) = default;
};

// Memory of each of these devices, from the start of a task (none: from the beginning) until the last of some tasks ends (none:
// until the end). `from` may be any task, before all of `until`.
struct Buffer {
  double bytes = 0;
  Devices devices = {};
  std::optional<TaskName> from = {};
  std::vector<TaskName> until = {};
  friend bool operator==(const Buffer&, const Buffer&) = default;
};

struct Block {
  std::vector<Task> tasks = {};
  std::vector<Buffer> buffers = {};
  friend bool operator==(const Block&, const Block&) = default;
};

// Tasks by number. A number stays a task's until its block is replaced.
struct TaskChanges {
  std::vector<std::uint32_t> removed, added;
  std::vector<std::uint32_t> reordered;  // still there, and wait for other tasks than before
  std::vector<std::uint32_t> blocks;
};

class TaskGraph {
 public:
  struct Entry {
    TaskName name;
    Task task;
    std::size_t place = 0;
    std::vector<std::uint32_t> before, after;  // what it waits for, queues included, and what waits for it
    bool exists = false;
    std::uint64_t key() const { return (std::uint64_t{name.block} << 32) | name.index; }
  };

  // Replaces a block; other blocks may go on to name its tasks. An empty block removes it.
  void set_block(std::uint32_t number, Block block);
  // Connects what was set since the last time. Throws Error(kUsage) where a task waits for one that is not there or not before
  // it; the graph is then of no more use.
  TaskChanges commit();
  // Numbers of removed tasks may be given to new ones.
  void forget(std::span<const std::uint32_t> removed);

  std::size_t numbers() const { return entries_.size(); }  // above all tasks' numbers
  const Entry& operator[](std::uint32_t number) const { return entries_[number]; }
  std::size_t tasks() const { return tasks_; }
  std::optional<std::uint32_t> find(TaskName name) const;
  const std::map<std::uint32_t, std::vector<Buffer>>& buffers() const { return buffers_; }  // by block

 private:
  using Key = std::pair<TaskName, std::uint32_t>;
  // Tasks that stand in the same queue of the same devices, in order.
  struct Line {
    DeviceQueue queue;
    Devices devices;
    std::vector<Key> tasks;
    std::vector<std::size_t> meets;  // lines that have a device in common with this one, itself included
  };

  std::size_t line_of(const Task& task);
  void remove_block(std::uint32_t number, TaskChanges& changes, std::set<std::uint32_t>& reordered);
  void add_block(std::uint32_t number, std::vector<Task> tasks, TaskChanges& changes, std::set<std::uint32_t>& reordered);
  void add_followers(std::size_t line, TaskName name, std::set<std::uint32_t>& reordered) const;
  void connect(std::uint32_t number);
  void disconnect(std::uint32_t number);

  std::vector<Entry> entries_;
  std::vector<std::uint32_t> free_;
  std::size_t tasks_ = 0;
  std::map<std::uint32_t, std::vector<std::uint32_t>> blocks_;  // the tasks' numbers
  std::map<std::uint32_t, std::vector<Buffer>> buffers_;
  std::map<std::uint32_t, Block> pending_;
  std::vector<Line> lines_;
  std::map<std::pair<DeviceQueue, Devices>, std::size_t> line_numbers_;
  std::map<std::pair<DeviceQueue, std::uint32_t>, std::vector<std::size_t>> lines_of_device_;
};

}  // namespace rewright::plans
