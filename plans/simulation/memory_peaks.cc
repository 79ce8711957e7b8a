#include "plans/simulation/memory_peaks.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "plans/simulation/engine.h"

namespace rewright::plans {

namespace {

// Tasks by the same number of names come in their order: a task that ends gives memory back before a later one that starts
// then.
struct MemoryEvent {
  double time;
  TaskName task;
  bool is_end;
  double bytes;
  friend bool operator<(const MemoryEvent& a, const MemoryEvent& b) {
    return std::tie(a.time, a.task, a.is_end) < std::tie(b.time, b.task, b.is_end);
  }
};

}  // namespace

MemoryPeaks::MemoryPeaks(std::size_t devices, const TaskGraph& graph, const Engine& engine)
    : graph_(graph), engine_(engine), class_of_(devices), peaks_(devices) {}

void MemoryPeaks::remove_block(std::uint32_t block) {
  const auto at = places_of_block_.find(block);
  if (at == places_of_block_.end()) return;
  for (const std::size_t place : at->second) {
    std::erase_if(places_[place].buffers, [&](const auto& buffer) { return buffer.first == block; });
    changed_.insert(place);
  }
  places_of_block_.erase(at);
}

void MemoryPeaks::add_block(std::uint32_t block) {
  const auto at = graph_.buffers().find(block);
  if (at == graph_.buffers().end()) return;
  const std::vector<Buffer>& buffers = at->second;
  for (std::size_t n = 0; n < buffers.size(); ++n) {
    const auto [place, is_new] = place_numbers_.try_emplace(buffers[n].devices, places_.size());
    const std::size_t number = place->second;
    if (is_new) places_.push_back({buffers[n].devices, {}, {}}), has_classes_ = false;
    places_[number].buffers.emplace(block, n);
    changed_.insert(number);
    places_of_block_[block].push_back(number);
    if (buffers[n].from) places_of_task_[*buffers[n].from].insert(number);
    for (const TaskName task : buffers[n].until) places_of_task_[task].insert(number);
  }
}

void MemoryPeaks::changed(const TaskChanges& changes, std::span<const std::uint32_t> touched) {
  for (const std::uint32_t block : changes.blocks) remove_block(block), add_block(block);
  for (const std::uint32_t t : touched)
    if (const auto at = places_of_task_.find(graph_[t].name); at != places_of_task_.end())
      changed_.insert(at->second.begin(), at->second.end());
}

void MemoryPeaks::make_classes() {
  std::vector<std::vector<std::size_t>> places(class_of_.size());
  for (std::size_t n = 0; n < places_.size(); ++n) {
    places_[n].classes.clear();
    for (const std::uint32_t device : places_[n].devices) places[device].push_back(n);
    changed_.insert(n);
  }
  std::map<std::vector<std::size_t>, std::size_t> classes;
  places_of_class_.clear();
  for (std::size_t device = 0; device < places.size(); ++device) {
    const auto [at, is_new] = classes.try_emplace(places[device], classes.size());
    class_of_[device] = at->second;
    if (!is_new) continue;
    for (const std::size_t place : places[device]) places_[place].classes.push_back(at->second);
    places_of_class_.push_back(std::move(places[device]));
  }
  peak_of_class_.assign(places_of_class_.size(), 0);
  has_classes_ = true;
}

double MemoryPeaks::peak(std::size_t number) const {
  std::vector<MemoryEvent> events;
  double now = 0;
  const auto task = [&](TaskName name) {
    const std::optional<std::uint32_t> found = graph_.find(name);
    if (!found)
      throw Error(ErrorCode::kUsage, "there is no task " + std::to_string(name.block) + "." + std::to_string(name.index),
                  "a buffer");
    return *found;
  };
  for (const std::size_t place : places_of_class_[number])
    for (const auto& [block, n] : places_[place].buffers) {
      const Buffer& buffer = graph_.buffers().at(block)[n];
      if (buffer.from)
        events.push_back({engine_.start(task(*buffer.from)), *buffer.from, false, buffer.bytes});
      else
        now += buffer.bytes;
      if (buffer.until.empty()) continue;
      MemoryEvent last{-1, {}, true, -buffer.bytes};
      for (const TaskName name : buffer.until) last = std::max(last, {engine_.end(task(name)), name, true, -buffer.bytes});
      events.push_back(last);
    }
  std::sort(events.begin(), events.end());
  double most = now;
  for (const MemoryEvent& event : events) most = std::max(most, now += event.bytes);
  return most;
}

std::span<const double> MemoryPeaks::peaks() {
  if (!has_classes_) make_classes();
  std::set<std::size_t> classes;
  for (const std::size_t place : changed_) classes.insert(places_[place].classes.begin(), places_[place].classes.end());
  changed_.clear();
  for (const std::size_t c : classes) peak_of_class_[c] = peak(c);
  for (std::size_t device = 0; device < peaks_.size(); ++device) peaks_[device] = peak_of_class_[class_of_[device]];
  return peaks_;
}

}  // namespace rewright::plans
