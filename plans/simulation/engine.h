// The events of a simulation, of all of it or of what differs from the last run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <queue>
#include <span>
#include <vector>

#include "base/namespaces.h"
#include "plans/machines/machine.h"
#include "plans/simulation/fair_shares.h"
#include "plans/simulation/link_log.h"
#include "plans/simulation/task_graph.h"

namespace rewright::plans {

// Events are handled in the order of their times, and of tasks' names at one time; what follows from a task's end at the same
// time concerns later names. Rates of messages follow from which messages are on their way, and are computed after all events
// of a time. So whether a task has ended by a time is known when its turn comes, and no history depends on the order in which
// events were found: an incremental run does with some tasks what a whole run does with all.
//
// An incremental run goes through time with the tasks that differ from the last run, or may. Those that do not are "kept":
// their times are those of the last run. A task is no longer kept if what it waited for last has ended earlier, or has not
// ended at its start. A message is no longer kept while it is connected, by shared links, to one that differs or to one of the
// last run that is no more (a "ghost").
class Engine {
 public:
  Engine(const Machine& machine, const TaskGraph& graph);

  void run(const TaskChanges& changes);
  // Tasks whose times may differ from those before the last run.
  std::span<const std::uint32_t> touched() const { return touched_; }

  double start(std::uint32_t task) const { return tasks_[task].now.start; }
  double sending(std::uint32_t task) const { return tasks_[task].now.begin; }
  double end(std::uint32_t task) const { return tasks_[task].now.end; }

 private:
  enum class Status : std::uint8_t {
    kKept,      // as in the last run
    kWaiting,   // has not started in this run
    kStarted,   // has not ended in this run
    kReleased,  // a message that goes on as in the last run; its end is still to be noted
    kEnded,
    kRemoved,
  };
  // A message's rate from a time on, and the bytes that are left then.
  struct Segment {
    double time, left, rate;
    friend bool operator==(const Segment&, const Segment&) = default;
  };
  struct History {
    double start = 0, begin = 0, end = 0;  // begin: of its bytes
    std::vector<Segment> segments;
  };
  struct State {
    History now, past;  // past: of the last run, while it is not kept
    Status status = Status::kWaiting;
    bool has_past = false;
    bool is_ghost = false;
    std::uint32_t waits = 0, version = 0, mark = 0;
  };
  struct LinkState {
    LinkLog log;
    std::vector<std::uint32_t> active, ghosts;  // messages that are not kept; those of the last run that count as different
    bool is_watched = false;
    std::uint32_t mark = 0;
    bool is_hot() const { return !active.empty() || !ghosts.empty(); }
  };
  // In the order in which they are handled for one task at one time.
  enum class Kind : std::uint8_t { kWatch, kCheck, kStart, kBegin, kEnd, kGhostBegin, kGhostEnd, kPastEnd, kKeptEnd };
  struct Event {
    double time;
    std::uint64_t key;
    Kind kind;
    std::uint32_t task, other;  // other: a task, a version or a link, by kind
    bool operator>(const Event& e) const {
      if (time != e.time) return time > e.time;
      return key != e.key ? key > e.key : kind > e.kind;
    }
  };

  const Task& task(std::uint32_t t) const { return graph_[t].task; }
  std::uint64_t key(std::uint32_t t) const { return graph_[t].key(); }
  bool is_message(std::uint32_t t) const { return task(t).bytes > 0 && !task(t).uses.empty(); }
  bool is_as_before(std::uint32_t t) const {
    return tasks_[t].status == Status::kKept || tasks_[t].status == Status::kReleased;
  }
  void push(double time, std::uint32_t t, Kind kind, std::uint32_t other = 0) { events_.push({time, key(t), kind, t, other}); }

  void handle(const Event& event);
  void wait_anew(std::uint32_t t, bool has_past);
  bool has_ended(std::uint32_t t) const;
  void start_now(std::uint32_t t);
  void begin_message(std::uint32_t t);
  void end_now(std::uint32_t t);
  void note_end(std::uint32_t of, std::uint32_t t);
  void past_end(std::uint32_t t);

  // Messages (messages.cc).
  void put_on_links(std::uint32_t t);
  void take_off_links(std::uint32_t t);
  void become_ghost(std::uint32_t t);
  void end_ghost(std::uint32_t t);
  void watch(LinkNumber link);
  void share_links();
  void share_component(LinkNumber from);
  void touch(std::uint32_t t);
  void release(std::uint32_t t);
  void set_rate(std::uint32_t t, double rate);
  void schedule_end(std::uint32_t t);
  bool goes_on_as_before(std::uint32_t t) const;
  void keep(std::span<const std::uint32_t> removed);

  const TaskGraph& graph_;
  std::span<const Link> machine_links_;
  FairShares shares_;
  std::vector<State> tasks_;
  std::vector<LinkState> links_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  double time_ = 0;
  std::uint64_t key_ = 0;  // of the task whose event is handled
  std::vector<LinkNumber> changed_links_;
  std::vector<std::uint32_t> touched_, component_;
  std::vector<LinkNumber> component_links_;
  std::uint32_t mark_ = 0;
};

}  // namespace rewright::plans
