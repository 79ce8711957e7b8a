// Assigns streams to the steps of a plan, and offsets to its buffers.
#include <algorithm>
#include <map>
#include <utility>

#include "runtime/cuda/planning/plan.h"
#include "runtime/cuda/planning/schedule.h"
#include "runtime/memory.h"

namespace rewright::cuda {

namespace {

// Two buffers share memory if, in any concurrent order, all users of one finish before the other is written.
void place(Plan& plan, const Schedule& order) {
  struct Use {
    Buffer* buffer;
    std::vector<int> steps;  // the first writes it
    bool to_the_end = false;
  };
  std::map<int, Use> uses;
  const auto use = [&](int b, std::size_t step) {
    if (b < 0 || plan.buffers[static_cast<std::size_t>(b)].kind != Buffer::Kind::kArena) return;
    Use& u = uses[b];
    u.buffer = &plan.buffers[static_cast<std::size_t>(b)];
    if (step == plan.steps.size())
      u.to_the_end = true;
    else
      u.steps.push_back(static_cast<int>(step));
  };
  for (std::size_t n = 0; n < plan.steps.size(); ++n) {
    for (const int b : plan.steps[n].outputs) use(b, n);
    for (const int b : plan.steps[n].inputs) use(b, n);
  }
  for (const int b : plan.outputs) use(b, plan.steps.size());
  std::vector<Use> list;
  for (auto& [number, u] : uses) list.push_back(std::move(u));
  const auto over_before = [&](const Use& a, const Use& b) {
    return !a.to_the_end && !b.steps.empty() &&
           std::all_of(a.steps.begin(), a.steps.end(), [&](int s) { return order.before(s, b.steps.front()); });
  };
  std::vector<Extent> extents;
  for (const Use& u : list) extents.push_back({u.buffer->bytes, 0, 0, 0});
  plan.arena_bytes = assign_offsets(extents, kBufferAlignment, [&](std::size_t a, std::size_t b) {
    return !over_before(list[a], list[b]) && !over_before(list[b], list[a]);
  });
  for (std::size_t n = 0; n < list.size(); ++n) list[n].buffer->offset = extents[n].offset;
}

void collect(const std::vector<Step>& steps, std::vector<const LibraryStep*>& found) {
  for (const Step& step : steps) {
    if (const auto* library = std::get_if<LibraryStep>(&step.work)) found.push_back(library);
    if (const auto* either = std::get_if<EitherStep>(&step.work))
      for (const EitherStep::Alternative& alternative : either->alternatives) collect(alternative.steps, found);
  }
}

}  // namespace

std::vector<const LibraryStep*> library_steps(const Plan& plan) {
  std::vector<const LibraryStep*> found;
  collect(plan.steps, found);
  return found;
}

void order_steps(Plan& plan, int most_streams) {
  std::vector<int> writer(plan.buffers.size(), -1);
  std::vector<std::vector<int>> needs(plan.steps.size());
  std::map<int, std::vector<int>> readers;  // by resident place
  const auto place_of = [&](int b) {
    const bool stays = b >= 0 && plan.buffers[static_cast<std::size_t>(b)].kind == Buffer::Kind::kResident;
    return stays ? plan.buffers[static_cast<std::size_t>(b)].number : -1;
  };
  for (std::size_t n = 0; n < plan.steps.size(); ++n) {
    const Step& step = plan.steps[n];
    for (const int b : step.inputs)
      if (const int w = b < 0 ? -1 : writer[static_cast<std::size_t>(b)]; w >= 0) needs[n].push_back(w);
    // A step that overwrites a resident tensor waits for its readers.
    for (const int b : step.outputs)
      if (const int place = place_of(b); place >= 0)
        needs[n].insert(needs[n].end(), readers[place].begin(), readers[place].end());
    for (const int b : step.inputs)
      if (const int place = place_of(b); place >= 0) readers[place].push_back(static_cast<int>(n));
    for (const int b : step.outputs)
      if (b >= 0) writer[static_cast<std::size_t>(b)] = static_cast<int>(n);
    if (std::holds_alternative<HostStep>(step.work)) most_streams = 1;
  }
  const Schedule order(needs, most_streams);
  plan.streams = order.streams();
  for (std::size_t n = 0; n < plan.steps.size(); ++n) {
    plan.steps[n].stream = order.stream(static_cast<int>(n));
    plan.steps[n].waits = order.waits(static_cast<int>(n));
  }
  place(plan, order);
}

}  // namespace rewright::cuda
