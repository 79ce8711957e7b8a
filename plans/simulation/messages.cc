// Messages on links: who shares them, and which of the last run's messages go on as they did.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "plans/simulation/engine.h"

namespace rewright::plans {

namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

}  // namespace

void Engine::put_on_links(std::uint32_t t) {
  for (const LinkUse& use : task(t).uses) {
    links_[use.link].active.push_back(t);
    changed_links_.push_back(use.link);
    watch(use.link);
  }
}

void Engine::take_off_links(std::uint32_t t) {
  for (const LinkUse& use : task(t).uses) {
    std::erase(links_[use.link].active, t);
    changed_links_.push_back(use.link);
  }
}

void Engine::become_ghost(std::uint32_t t) {
  if (std::exchange(tasks_[t].is_ghost, true)) return;
  for (const LinkUse& use : task(t).uses) {
    links_[use.link].ghosts.push_back(t);
    changed_links_.push_back(use.link);
    watch(use.link);
  }
}

void Engine::end_ghost(std::uint32_t t) {
  if (!std::exchange(tasks_[t].is_ghost, false)) return;
  for (const LinkUse& use : task(t).uses) {
    std::erase(links_[use.link].ghosts, t);
    changed_links_.push_back(use.link);
  }
}

// Notices when a kept message begins on a link where something differs from the last run.
void Engine::watch(LinkNumber link) {
  LinkState& l = links_[link];
  if (l.is_watched) return;
  const double begin = l.log.next_begin(time_, [&](std::uint32_t t) { return is_as_before(t); });
  if (begin == kForever) return;
  l.is_watched = true;
  events_.push({begin, 0, Kind::kWatch, 0, link});
}

// At the end of a time's events: messages connected to a link where one began or ended get new rates.
void Engine::share_links() {
  std::vector<LinkNumber> changed = std::exchange(changed_links_, {});
  std::sort(changed.begin(), changed.end());
  ++mark_;
  for (const LinkNumber link : changed)
    if (links_[link].mark != mark_) share_component(link);
}

void Engine::share_component(LinkNumber from) {
  component_.clear();
  component_links_.assign(1, from);
  links_[from].mark = mark_;
  bool is_hot = false;
  const auto visit = [&](std::uint32_t t) {
    if (std::exchange(tasks_[t].mark, mark_) == mark_) return;
    component_.push_back(t);
    for (const LinkUse& use : task(t).uses)
      if (std::exchange(links_[use.link].mark, mark_) != mark_) component_links_.push_back(use.link);
  };
  for (std::size_t n = 0; n < component_links_.size(); ++n) {
    const LinkState& link = links_[component_links_[n]];
    is_hot = is_hot || link.is_hot();
    for (const std::uint32_t t : link.active) visit(t);
    link.log.for_each_at(time_, [&](std::uint32_t t) {
      if (is_as_before(t)) visit(t);
    });
  }
  if (!is_hot || component_.empty()) return;
  std::sort(component_.begin(), component_.end(), [&](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); });
  for (const std::uint32_t t : component_) {
    if (is_as_before(t)) touch(t);
    shares_.add(task(t).uses, task(t).most_bytes_per_second);
  }
  const std::span<const double> rates = shares_.rates();
  for (std::size_t n = 0; n < component_.size(); ++n) set_rate(component_[n], rates[n]);
  const auto as_before = [&](std::uint32_t t) { return goes_on_as_before(t); };
  if (!std::ranges::all_of(component_, as_before)) return;
  for (const LinkNumber link : component_links_)
    if (!std::ranges::all_of(links_[link].ghosts, as_before)) return;
  for (const std::uint32_t t : component_) release(t);
}

// From now on the message's history is found anew. What it is so far is that of the last run.
void Engine::touch(std::uint32_t t) {
  State& s = tasks_[t];
  if (s.status == Status::kKept) {
    touched_.push_back(t);
    s.past = s.now, s.has_past = true;
    push(s.past.end, t, Kind::kPastEnd);
  }
  s.status = Status::kStarted;
  std::vector<Segment>& segments = s.now.segments;
  segments.erase(std::find_if(segments.begin(), segments.end(), [&](const Segment& g) { return g.time >= time_; }),
                 segments.end());
  if (segments.empty())
    segments.push_back({time_, task(t).bytes, 0});
  else
    schedule_end(t);
  for (const LinkUse& use : task(t).uses) {
    links_[use.link].active.push_back(t);
    if (!s.is_ghost) links_[use.link].ghosts.push_back(t);
    watch(use.link);
  }
  if (!std::exchange(s.is_ghost, true)) push(s.past.end, t, Kind::kGhostEnd);
}

void Engine::release(std::uint32_t t) {
  State& s = tasks_[t];
  for (const LinkUse& use : task(t).uses) {
    std::erase(links_[use.link].active, t);
    std::erase(links_[use.link].ghosts, t);
  }
  s.is_ghost = false;
  s.status = Status::kReleased;
  s.now.segments = s.past.segments;
  push(s.past.end, t, Kind::kEnd, ++s.version);
}

void Engine::set_rate(std::uint32_t t, double rate) {
  std::vector<Segment>& segments = tasks_[t].now.segments;
  Segment& last = segments.back();
  if (last.rate == rate) return;
  if (last.time == time_)
    last.rate = rate;
  else
    segments.push_back({time_, std::max(0.0, last.left - last.rate * (time_ - last.time)), rate});
  schedule_end(t);
}

// Time passes between a message's beginning and its end, and between a change of its rate and its end, however short they are.
void Engine::schedule_end(std::uint32_t t) {
  const Segment& last = tasks_[t].now.segments.back();
  push(std::max(std::nextafter(last.time, kForever), last.time + last.left / last.rate), t, Kind::kEnd, ++tasks_[t].version);
}

// Whether a message's rate, and what is left of it, are at this time what they were in the last run.
bool Engine::goes_on_as_before(std::uint32_t t) const {
  const State& s = tasks_[t];
  if (s.status != Status::kStarted || !s.has_past || s.now.begin != s.past.begin || s.past.end <= time_) return false;
  if (s.now.segments.empty()) return false;  // its bytes do not move yet
  const auto after =
      std::find_if(s.past.segments.begin(), s.past.segments.end(), [&](const Segment& g) { return g.time > time_; });
  return after != s.past.segments.begin() && *std::prev(after) == s.now.segments.back();
}

// Makes the times that were found those of the last run.
void Engine::keep(std::span<const std::uint32_t> removed) {
  struct Change {
    LinkNumber link;
    bool is_added;
    Passage passage;
  };
  std::vector<Change> changes;
  const auto note = [&](std::uint32_t t, bool is_added, const History& h) {
    for (const LinkUse& use : task(t).uses) changes.push_back({use.link, is_added, {h.begin, h.end, t}});
  };
  for (const std::uint32_t t : removed)
    if (is_message(t)) note(t, false, tasks_[t].past);
  for (const std::uint32_t t : touched_) {
    State& s = tasks_[t];
    if (is_message(t) && !(s.has_past && s.past.begin == s.now.begin && s.past.end == s.now.end)) {
      if (s.has_past) note(t, false, s.past);
      note(t, true, s.now);
    }
    s.status = Status::kKept, s.has_past = false, s.past = {};
  }
  std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.link < b.link; });
  for (std::size_t n = 0; n < changes.size();) {
    std::vector<Passage> out, in;
    const LinkNumber link = changes[n].link;
    for (; n < changes.size() && changes[n].link == link; ++n) (changes[n].is_added ? in : out).push_back(changes[n].passage);
    links_[link].log.change(std::move(out), std::move(in));
  }
  for (const std::uint32_t t : removed) tasks_[t] = {};
}

}  // namespace rewright::plans
