#include "plans/simulation/task_graph.h"

#include <algorithm>

#include "base/error.h"

namespace rewright::plans {

namespace {

constexpr std::size_t kNoLine = std::numeric_limits<std::size_t>::max();

std::string text(TaskName name) { return std::to_string(name.block) + "." + std::to_string(name.index); }

}  // namespace

void TaskGraph::set_block(std::uint32_t number, Block block) { pending_.insert_or_assign(number, std::move(block)); }

std::optional<std::uint32_t> TaskGraph::find(TaskName name) const {
  const auto block = blocks_.find(name.block);
  if (block == blocks_.end() || name.index >= block->second.size()) return std::nullopt;
  return block->second[name.index];
}

std::size_t TaskGraph::line_of(const Task& task) {
  if (task.queue == DeviceQueue::kNone || task.devices.empty()) return kNoLine;
  const auto [at, is_new] = line_numbers_.try_emplace({task.queue, task.devices}, lines_.size());
  if (!is_new) return at->second;
  const std::size_t number = lines_.size();
  std::set<std::size_t> meets{number};
  for (const std::uint32_t device : task.devices)
    for (const DeviceQueue queue : {DeviceQueue::kCompute, DeviceQueue::kExchange}) {
      if (!have_queue_in_common(task.queue, queue)) continue;
      std::vector<std::size_t>& others = lines_of_device_[{queue, device}];
      meets.insert(others.begin(), others.end());
      others.push_back(number);
    }
  for (const std::size_t other : meets)
    if (other != number) lines_[other].meets.push_back(number);
  lines_.push_back({task.queue, task.devices, {}, {meets.begin(), meets.end()}});
  return number;
}

// The first tasks after this name in all lines that meet this one: they wait for what is put in or taken out here.
void TaskGraph::add_followers(std::size_t line, TaskName name, std::set<std::uint32_t>& reordered) const {
  for (const std::size_t other : lines_[line].meets) {
    const std::vector<Key>& tasks = lines_[other].tasks;
    const auto next = std::upper_bound(tasks.begin(), tasks.end(), Key{name, std::numeric_limits<std::uint32_t>::max()});
    if (next != tasks.end()) reordered.insert(next->second);
  }
}

void TaskGraph::remove_block(std::uint32_t number, TaskChanges& changes, std::set<std::uint32_t>& reordered) {
  const auto block = blocks_.find(number);
  if (block == blocks_.end()) return;
  for (const std::uint32_t n : block->second) {
    Entry& entry = entries_[n];
    reordered.insert(entry.after.begin(), entry.after.end());
    if (entry.place != kNoLine) {
      std::vector<Key>& tasks = lines_[entry.place].tasks;
      tasks.erase(std::lower_bound(tasks.begin(), tasks.end(), Key{entry.name, n}));
      add_followers(entry.place, entry.name, reordered);
    }
    changes.removed.push_back(n);
    entry.exists = false, --tasks_;
  }
  blocks_.erase(block);
}

void TaskGraph::add_block(std::uint32_t number, std::vector<Task> tasks, TaskChanges& changes,
                          std::set<std::uint32_t>& reordered) {
  if (tasks.empty()) return;
  std::vector<std::uint32_t>& numbers = blocks_[number];
  for (Task& task : tasks) {
    std::uint32_t n = static_cast<std::uint32_t>(entries_.size());
    if (free_.empty())
      entries_.emplace_back();
    else
      n = free_.back(), free_.pop_back();
    Entry& entry = entries_[n];
    entry.name = {number, static_cast<std::uint32_t>(numbers.size())};
    entry.place = line_of(task);
    entry.task = std::move(task);
    entry.exists = true, ++tasks_;
    if (entry.place != kNoLine) {
      std::vector<Key>& line = lines_[entry.place].tasks;
      line.insert(std::upper_bound(line.begin(), line.end(), Key{entry.name, n}), {entry.name, n});
      add_followers(entry.place, entry.name, reordered);
    }
    numbers.push_back(n);
    changes.added.push_back(n);
  }
}

void TaskGraph::disconnect(std::uint32_t number) {
  for (const std::uint32_t other : entries_[number].before) std::erase(entries_[other].after, number);
  entries_[number].before.clear();
}

void TaskGraph::connect(std::uint32_t number) {
  Entry& entry = entries_[number];
  std::vector<std::uint32_t> before;
  for (const TaskName name : entry.task.after) {
    const std::optional<std::uint32_t> other = find(name);
    if (!other || name >= entry.name)
      throw Error(ErrorCode::kUsage,
                  "waits for task " + text(name) + (other ? ", which is not before it" : ", which is not there"),
                  "task " + text(entry.name));
    before.push_back(*other);
  }
  if (entry.place != kNoLine) {
    const auto last_in = [&](std::size_t line) {
      const std::vector<Key>& tasks = lines_[line].tasks;
      const auto at = std::lower_bound(tasks.begin(), tasks.end(), Key{entry.name, 0});
      return at == tasks.begin() ? std::optional<Key>() : *std::prev(at);
    };
    // The one before it in its own line has waited for what is before that one in others.
    const std::optional<Key> own = last_in(entry.place);
    for (const std::size_t line : lines_[entry.place].meets)
      if (const std::optional<Key> last = last_in(line); last && (!own || *last >= *own)) before.push_back(last->second);
  }
  std::sort(before.begin(), before.end());
  before.erase(std::unique(before.begin(), before.end()), before.end());
  for (const std::uint32_t other : before) entries_[other].after.push_back(number);
  entry.before = std::move(before);
}

TaskChanges TaskGraph::commit() {
  TaskChanges changes;
  std::set<std::uint32_t> reordered;
  for (const auto& [number, block] : pending_) {
    changes.blocks.push_back(number);
    remove_block(number, changes, reordered);
  }
  for (auto& [number, block] : pending_) {
    add_block(number, std::move(block.tasks), changes, reordered);
    if (block.buffers.empty())
      buffers_.erase(number);
    else
      buffers_[number] = std::move(block.buffers);
  }
  pending_.clear();
  for (const std::uint32_t n : changes.removed) disconnect(n);
  for (const std::uint32_t n : changes.added) reordered.erase(n);
  for (const std::uint32_t n : reordered)
    if (entries_[n].exists) changes.reordered.push_back(n);
  std::erase_if(changes.reordered, [&](std::uint32_t n) {
    const std::vector<std::uint32_t> had = entries_[n].before;
    disconnect(n);
    connect(n);
    return had == entries_[n].before;
  });
  for (const std::uint32_t n : changes.added) connect(n);
  return changes;
}

void TaskGraph::forget(std::span<const std::uint32_t> removed) {
  for (const std::uint32_t n : removed) {
    entries_[n] = {};
    free_.push_back(n);
  }
}

}  // namespace rewright::plans
