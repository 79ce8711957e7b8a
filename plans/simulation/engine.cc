#include "plans/simulation/engine.h"

#include <algorithm>
#include <limits>

namespace rewright::plans {

Engine::Engine(const Machine& machine, const TaskGraph& graph)
    : graph_(graph), machine_links_(machine.links()), shares_(machine.links()), links_(machine.links().size()) {}

void Engine::run(const TaskChanges& changes) {
  touched_.clear();
  tasks_.resize(graph_.numbers());
  time_ = -std::numeric_limits<double>::infinity(), key_ = 0;
  for (const std::uint32_t t : changes.removed) {
    State& s = tasks_[t];
    s.past = s.now, s.has_past = true, s.status = Status::kRemoved;
    if (!is_message(t)) continue;
    push(s.past.begin, t, Kind::kGhostBegin);
    push(s.past.end, t, Kind::kGhostEnd);
  }
  for (const std::uint32_t t : changes.added) wait_anew(t, false);
  for (const std::uint32_t t : changes.reordered) wait_anew(t, true);
  while (true) {
    if (!changed_links_.empty() && (events_.empty() || events_.top().time > time_)) {
      share_links();
      continue;
    }
    if (events_.empty()) break;
    const Event event = events_.top();
    events_.pop();
    time_ = event.time, key_ = event.key;
    handle(event);
  }
  keep(changes.removed);
}

void Engine::handle(const Event& event) {
  const std::uint32_t t = event.task;
  State& s = tasks_[t];
  switch (event.kind) {
    case Kind::kWatch:
      links_[event.other].is_watched = false;
      if (!links_[event.other].is_hot()) return;
      changed_links_.push_back(event.other);
      return watch(event.other);
    case Kind::kCheck:
      if (s.status == Status::kKept && !has_ended(event.other)) wait_anew(t, true);
      return;
    case Kind::kStart:
      return start_now(t);
    case Kind::kBegin:
      return begin_message(t);
    case Kind::kEnd:
      if (event.other == s.version) end_now(t);
      return;
    case Kind::kGhostBegin:
      return become_ghost(t);
    case Kind::kGhostEnd:
      return end_ghost(t);
    case Kind::kPastEnd:
      return past_end(t);
    case Kind::kKeptEnd:
      if (s.status == Status::kKept) note_end(t, event.other);
      return;
  }
}

// A task that has not started yet: what it waits for is counted again.
void Engine::wait_anew(std::uint32_t t, bool has_past) {
  State& s = tasks_[t];
  touched_.push_back(t);
  s.status = Status::kWaiting;
  s.has_past = has_past;
  ++s.version;
  if (has_past) {
    s.past = std::move(s.now);
    push(s.past.end, t, Kind::kPastEnd);
    if (is_message(t)) {
      push(s.past.begin, t, Kind::kGhostBegin);
      push(s.past.end, t, Kind::kGhostEnd);
    }
  }
  s.now = {};
  s.waits = 0;
  for (const std::uint32_t other : graph_[t].before) {
    if (has_ended(other)) continue;
    ++s.waits;
    if (tasks_[other].status == Status::kKept) push(tasks_[other].now.end, other, Kind::kKeptEnd, t);
  }
  if (s.waits == 0) push(std::max(time_, 0.0), t, Kind::kStart);
}

bool Engine::has_ended(std::uint32_t t) const {
  const State& s = tasks_[t];
  if (s.status != Status::kKept) return s.status == Status::kEnded;
  return s.now.end < time_ || (s.now.end == time_ && key(t) <= key_);
}

void Engine::start_now(std::uint32_t t) {
  State& s = tasks_[t];
  s.status = Status::kStarted;
  s.now.start = time_;
  s.now.begin = time_ + task(t).seconds;
  push(s.now.begin, t, is_message(t) ? Kind::kBegin : Kind::kEnd, s.version);
}

void Engine::begin_message(std::uint32_t t) {
  tasks_[t].now.segments = {{time_, task(t).bytes, 0}};
  put_on_links(t);
}

void Engine::end_now(std::uint32_t t) {
  State& s = tasks_[t];
  s.now.end = time_;
  if (s.status == Status::kStarted && is_message(t)) take_off_links(t);
  s.status = Status::kEnded;
  for (const std::uint32_t next : graph_[t].after) {
    if (tasks_[next].status == Status::kWaiting) note_end(t, next);
    // A task that started when this one ended may start earlier.
    else if (tasks_[next].status == Status::kKept && s.has_past && time_ < s.past.end && tasks_[next].now.start == s.past.end)
      wait_anew(next, true);
  }
}

void Engine::note_end(std::uint32_t, std::uint32_t t) {
  State& s = tasks_[t];
  if (s.status == Status::kWaiting && --s.waits == 0) push(time_, t, Kind::kStart);
}

// The time at which the task ended in the last run.
void Engine::past_end(std::uint32_t t) {
  if (tasks_[t].status == Status::kEnded) return;
  for (const std::uint32_t next : graph_[t].after) {
    const State& n = tasks_[next];
    if (n.status != Status::kKept) continue;
    if (n.now.start == time_)
      wait_anew(next, true);
    else
      push(n.now.start, next, Kind::kCheck, t);
  }
}

}  // namespace rewright::plans
