#include <algorithm>
#include <cstring>

#include "runtime/cpu/base/libraries.h"
#include "runtime/cpu/running/runner_impl.h"

namespace rewright::cpu {

PlanRunner::Uses::Uses(const Plan& plan)
    : views(plan.storages.size()), needed(plan.steps.size()), written(plan.steps.size()), done(plan.steps.size() + 1) {
  std::vector<int> root(plan.storages.size());
  for (std::size_t s = 0; s < plan.storages.size(); ++s) {
    int r = static_cast<int>(s);
    std::size_t at = 0;
    for (; plan.storages[r].part_of >= 0; r = plan.storages[r].part_of) at += plan.storages[r].part_at;
    root[s] = r;
    views[static_cast<std::size_t>(r)].push_back({static_cast<int>(s), at});
    const Storage& storage = plan.storages[s];
    if (storage.kind != Storage::Kind::kInput || storage.part_of >= 0) continue;
    input_storage.resize(std::max(input_storage.size(), static_cast<std::size_t>(storage.number) + 1), -1);
    input_storage[static_cast<std::size_t>(storage.number)] = static_cast<int>(s);
  }
  std::vector<std::size_t> last(plan.storages.size(), plan.steps.size());
  std::vector<bool> seen(plan.storages.size());
  for (std::size_t n = 0; n < plan.steps.size(); ++n)
    for (const auto* list : {&plan.steps[n].inputs, &plan.steps[n].outputs})
      for (const int s : *list) {
        if (s < 0) continue;
        const int r = root[static_cast<std::size_t>(s)];
        const Storage& storage = plan.storages[r];
        const auto number = static_cast<std::size_t>(storage.number);
        if (storage.kind == Storage::Kind::kInput && std::ranges::find(needed[n], number) == needed[n].end())
          needed[n].push_back(number);
        if (storage.kind == Storage::Kind::kOutput && !seen[r]) written[n].push_back(number);
        seen[r] = true;
        last[r] = n;
      }
  for (std::size_t o = 0; o < plan.outputs.size(); ++o) done[last[root[plan.outputs[o]]]].push_back(o);
}

void PlanRunner::stream(TensorStream& tensors) {
  {
    const std::lock_guard lock(mutex_);
    if (!uses_) uses_ = std::make_unique<Uses>(plan_);
  }
  const Uses& uses = *uses_;
  const LibrariesOnOneThread alone;
  const Workers workers(plan_.options.threads, plan_.options.piece_nanoseconds);
  std::unique_ptr<Execution> execution = take();
  const auto place = [&](int storage, std::byte* address) {
    for (const Uses::View& view : uses.views[storage]) execution->addresses[view.storage] = address + view.at;
  };
  for (std::size_t s = 0; s < plan_.storages.size(); ++s) {
    const Storage& storage = plan_.storages[s];
    const bool fixed = storage.kind == Storage::Kind::kArena || storage.kind == Storage::Kind::kConstant;
    if (fixed && storage.part_of < 0) place(static_cast<int>(s), execution->addresses[s]);
  }
  std::vector<Tensor> held(uses.input_storage.size());
  const auto fetch = [&](std::size_t input) {
    if (held[input]) return;
    held[input] = tensors.input(input);
    place(uses.input_storage[input], const_cast<std::byte*>(held[input].bytes().data()));
  };
  const auto in_place = [&](std::size_t o) {
    const Storage& storage = plan_.storages[plan_.outputs[o]];
    return storage.kind == Storage::Kind::kOutput && storage.number == static_cast<int>(o) && storage.part_of < 0;
  };
  std::vector<std::span<std::byte>> memory(plan_.outputs.size());
  const auto hand_over = [&](const std::vector<std::size_t>& outputs) {
    for (const std::size_t o : outputs) {
      if (in_place(o)) continue;
      memory[o] = tensors.output(o);
      if (!memory[o].empty()) std::memcpy(memory[o].data(), execution->addresses[plan_.outputs[o]], memory[o].size());
    }
    for (const std::size_t o : outputs) tensors.finished(o);
  };
  for (std::size_t n = 0; n < plan_.steps.size(); ++n) {
    for (const std::size_t i : uses.needed[n]) fetch(i);
    for (const std::size_t o : uses.written[n]) {
      memory[o] = tensors.output(o);
      place(plan_.outputs[o], memory[o].data());
    }
    run_step(*execution, n, workers, nullptr);
    hand_over(uses.done[n]);
    for (const std::size_t i : uses.needed[n]) {
      const bool next_too = n + 1 < plan_.steps.size() && std::ranges::find(uses.needed[n + 1], i) != uses.needed[n + 1].end();
      if (!next_too) held[i] = {};
    }
  }
  // Outputs that are inputs or constants, and memory that no step writes.
  for (const std::size_t o : uses.done.back()) {
    const int s = plan_.outputs[o];
    for (std::size_t i = 0; i < held.size(); ++i)
      if (uses.input_storage[i] >= 0 &&
          std::ranges::any_of(uses.views[uses.input_storage[i]], [&](const Uses::View& v) { return v.storage == s; }))
        fetch(i);
    if (in_place(o)) tensors.output(o);
  }
  hand_over(uses.done.back());
  give_back(std::move(execution));
}

}  // namespace rewright::cpu
