#include "runtime/cpu/planning/memory.h"

#include <algorithm>

#include "runtime/memory.h"

namespace rewright::cpu {

namespace {

// The storage that this one is a part of, or this one.
int whole_of(const Plan& plan, int storage) {
  while (plan.storages[storage].part_of >= 0) storage = plan.storages[storage].part_of;
  return storage;
}

}  // namespace

void find_lifetimes(Plan& plan) {
  const auto use = [&](int s, int step) {
    Storage& storage = plan.storages[whole_of(plan, s)];
    if (storage.first < 0) storage.first = step;
    storage.last = std::max(storage.last, step);
  };
  for (std::size_t n = 0; n < plan.steps.size(); ++n) {
    const Step& step = plan.steps[n];
    for (const int s : step.inputs) use(s, static_cast<int>(n));
    for (const int s : step.outputs) use(s, static_cast<int>(n));
    if (step.scratch >= 0) use(step.scratch, static_cast<int>(n));
  }
  for (const int s : plan.outputs) use(s, static_cast<int>(plan.steps.size()));
}

void reuse_inputs(Plan& plan) {
  for (const Replacement& r : plan.options.replacements) {
    const int at = plan.outputs.at(r.output);
    Storage& output = plan.storages[at];
    if (output.kind != Storage::Kind::kOutput || output.number != static_cast<int>(r.output)) continue;
    const auto input = std::find_if(plan.storages.begin(), plan.storages.end(), [&](const Storage& s) {
      return s.kind == Storage::Kind::kInput && s.number == static_cast<int>(r.input);
    });
    if (input == plan.storages.end() || input->bytes != output.bytes || output.first < 0 || input->last != output.first)
      continue;
    const Step& step = plan.steps[output.first];
    const auto from = static_cast<int>(input - plan.storages.begin());
    const auto reads = std::count(step.inputs.begin(), step.inputs.end(), from);
    if (reads > 0 && reads == std::count(step.read_in_place.begin(), step.read_in_place.end(), from))
      output.replaces = static_cast<int>(r.input);
  }
}

void keep_values(Plan& plan) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 30;
  std::size_t bytes = 0;
  for (const Storage& s : plan.storages)
    if (s.kind == Storage::Kind::kArena && s.part_of < 0) bytes += s.bytes;
  if (bytes > kMostBytes) return;
  for (const PlannedValue& v : plan.values) {
    Storage& storage = plan.storages[whole_of(plan, v.storage)];
    if (storage.first >= 0) storage.last = static_cast<int>(plan.steps.size());
  }
}

void assign_memory(Plan& plan) {
  constexpr std::size_t kAlignment = 64;
  std::vector<Storage*> placed;
  std::vector<Extent> extents;
  for (Storage& storage : plan.storages) {
    if (storage.kind != Storage::Kind::kArena || storage.part_of >= 0 || storage.first < 0) continue;
    placed.push_back(&storage);
    extents.push_back({storage.bytes, storage.first, storage.last});
  }
  plan.arena_bytes = assign_offsets(extents, kAlignment);
  for (std::size_t s = 0; s < placed.size(); ++s) placed[s]->offset = extents[s].offset;
}

}  // namespace rewright::cpu
