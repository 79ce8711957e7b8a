#include "runtime/cpu/running/runner_impl.h"

#include <time.h>

#include <algorithm>
#include <cstring>

#include "base/process_memory.h"
#include "runtime/cpu/base/libraries.h"
#include "runtime/endable_run.h"

namespace rewright::cpu {

double work_seconds(int threads) {
  timespec now{};
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

PlanRunner::PlanRunner(Plan plan, std::shared_ptr<ArenaPool> arenas, std::shared_ptr<TensorPool> outputs)
    : plan_(std::move(plan)),
      arenas_(arenas ? std::move(arenas) : std::make_shared<ArenaPool>()),
      outputs_(std::move(outputs)),
      seconds_(plan_.steps.size()) {
  // Intermediate values and results together, which run() allocates one by one and no one has used yet.
  std::size_t bytes = plan_.arena_bytes;
  for (const TensorType& type : plan_.output_types) {
    output_sizes_.push_back(values(type.shape));
    bytes += static_cast<std::size_t>(element_count(output_sizes_.back())) * byte_size(type.type);
  }
  require_memory(bytes);
  give_back(take());
  runs_ = 0;
}
PlanRunner::~PlanRunner() {
  // After the last run of any thread. Reference counts ensure that as well, but the thread sanitizer does not see them in
  // uninstrumented code.
  const std::lock_guard lock(mutex_);
  free_.clear();
}

std::unique_ptr<PlanRunner::Execution> PlanRunner::take() {
  std::unique_ptr<Execution> execution = take_free();
  if (!execution) execution = make_execution();
  execution->arena = arenas_->take(plan_.arena_bytes);
  std::byte* const base = const_cast<std::byte*>(execution->arena.bytes().data());
  if (base == execution->base) return execution;
  execution->base = base;
  for (std::size_t s = 0; s < plan_.storages.size(); ++s) {
    const Storage& storage = plan_.storages[s];
    if (storage.kind == Storage::Kind::kArena && storage.part_of < 0) execution->addresses[s] = base + storage.offset;
  }
  return execution;
}

std::unique_ptr<PlanRunner::Execution> PlanRunner::take_free() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return nullptr;
  auto last = std::move(free_.back());
  free_.pop_back();
  return last;
}

std::unique_ptr<PlanRunner::Execution> PlanRunner::make_execution() const {
  auto made = std::make_unique<Execution>();
  made->addresses.resize(plan_.storages.size());
  made->seconds.resize(plan_.steps.size());
  for (std::size_t s = 0; s < plan_.storages.size(); ++s)
    if (plan_.storages[s].kind == Storage::Kind::kConstant)
      made->addresses[s] = const_cast<std::byte*>(plan_.storages[s].fixed);
  std::size_t most_inputs = 0, most_outputs = 0;
  for (const Step& step : plan_.steps) {
    most_inputs = std::max(most_inputs, step.inputs.size());
    most_outputs = std::max(most_outputs, step.outputs.size());
  }
  made->inputs.reserve(most_inputs);
  made->outputs.reserve(most_outputs);
  made->results.resize(plan_.outputs.size());
  return made;
}

bool PlanRunner::serves_any_lengths() const {
  for (std::size_t o = 0; o < plan_.outputs.size(); ++o) {
    const Storage& storage = plan_.storages[plan_.outputs[o]];
    const bool in_place = storage.kind == Storage::Kind::kOutput && storage.number == static_cast<int>(o);
    if (plan_.caches[o] && !in_place) return false;
  }
  return std::all_of(plan_.steps.begin(), plan_.steps.end(),
                     [](const Step& step) { return step.kernel->serves_any_lengths(); });
}

std::vector<Tensor> PlanRunner::run(std::span<const Tensor> inputs, const CacheLengths* lengths) {
  std::vector<Tensor> own(inputs.begin(), inputs.end());
  for (const Storage& storage : plan_.storages)
    if (storage.replaces >= 0) {
      Tensor& input = own[static_cast<std::size_t>(storage.replaces)];
      Tensor copy(input.type(), input.sizes());
      std::memcpy(copy.mutable_bytes().data(), input.bytes().data(), input.byte_count());
      input = std::move(copy);
    }
  return advance(std::move(own), lengths);
}

TensorPool::Output PlanRunner::make_output(std::size_t number, const CacheLengths* lengths) const {
  Sizes sizes = output_sizes_[number];
  if (lengths != nullptr && plan_.caches[number]) sizes[2] = lengths->present;
  if (outputs_) return outputs_->take(plan_.output_types[number].type, sizes);
  Tensor tensor(plan_.output_types[number].type, sizes);
  std::byte* const at = tensor.mutable_bytes().data();
  return {std::move(tensor), at};
}

std::vector<Tensor> PlanRunner::run_observed(std::span<const Tensor> inputs, const Observe& observe) {
  std::vector<Tensor> outputs(plan_.outputs.size());
  const LibrariesOnOneThread alone;
  std::unique_ptr<Execution> execution = take();
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    TensorPool::Output made = make_output(o);
    outputs[o] = std::move(made.tensor);
    execution->results[o] = made.bytes;
  }
  execute(*execution, inputs, observe);
  give_back(std::move(execution));
  return outputs;
}

std::vector<Tensor> PlanRunner::advance(std::vector<Tensor> inputs, const CacheLengths* lengths) {
  std::vector<Tensor> outputs(plan_.outputs.size());
  const LibrariesOnOneThread alone;
  std::unique_ptr<Execution> execution = take();
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const Storage& storage = plan_.storages[plan_.outputs[o]];
    if (storage.replaces >= 0 && storage.number == static_cast<int>(o)) {
      outputs[o] = inputs[static_cast<std::size_t>(storage.replaces)];
      execution->results[o] = outputs[o].mutable_bytes().data();
    } else {
      TensorPool::Output made = make_output(o, lengths);
      outputs[o] = std::move(made.tensor);
      execution->results[o] = made.bytes;
    }
  }
  execute(*execution, inputs, {}, lengths);
  give_back(std::move(execution));
  return outputs;
}

void PlanRunner::give_back(std::unique_ptr<Execution> execution) {
  arenas_->give_back(std::move(execution->arena));
  const std::lock_guard lock(mutex_);
  if (measured_)
    for (std::size_t n = 0; n < seconds_.size(); ++n) seconds_[n] += execution->seconds[n];
  ++runs_;
  free_.push_back(std::move(execution));
}

void PlanRunner::run_step(Execution& e, std::size_t number, const Workers& workers, const CacheLengths* lengths) const {
  const Step& step = plan_.steps[number];
  e.inputs.clear();
  e.outputs.clear();
  for (const int s : step.inputs) e.inputs.push_back(e.addresses[s]);
  for (const int s : step.outputs) e.outputs.push_back(e.addresses[s]);
  const Call call{e.inputs, e.outputs, step.scratch >= 0 ? e.addresses[step.scratch] : nullptr, workers, lengths};
  if (!measured_) return step.kernel->run(call);
  const double start = work_seconds(plan_.options.threads);
  step.kernel->run(call);
  e.seconds[number] = work_seconds(plan_.options.threads) - start;
}

void PlanRunner::execute(Execution& e, std::span<const Tensor> inputs, const Observe& observe,
                         const CacheLengths* lengths) const {
  const Workers workers(plan_.options.threads, plan_.options.piece_nanoseconds);
  for (std::size_t s = 0; s < plan_.storages.size(); ++s) {
    const Storage& storage = plan_.storages[s];
    if (storage.kind == Storage::Kind::kInput) e.addresses[s] = const_cast<std::byte*>(inputs[storage.number].bytes().data());
    if (storage.kind == Storage::Kind::kOutput) e.addresses[s] = e.results[static_cast<std::size_t>(storage.number)];
  }
  for (std::size_t s = 0; s < plan_.storages.size(); ++s) {
    std::size_t root = s, at = 0;
    while (plan_.storages[root].part_of >= 0) {
      at += plan_.storages[root].part_at;
      root = static_cast<std::size_t>(plan_.storages[root].part_of);
    }
    if (root != s) e.addresses[s] = e.addresses[root] + at;
  }
  for (std::size_t n = 0; n < plan_.steps.size(); ++n) {
    run_checkpoint();
    run_step(e, n, workers, lengths);
    if (observe) observe(n, e.addresses);
  }
  for (std::size_t o = 0; o < e.results.size(); ++o) {
    const int s = plan_.outputs[o];
    const Storage& storage = plan_.storages[s];
    const bool in_place = storage.kind == Storage::Kind::kOutput && storage.number == static_cast<int>(o);
    const std::size_t bytes = static_cast<std::size_t>(element_count(output_sizes_[o])) * byte_size(plan_.output_types[o].type);
    if (!in_place && bytes > 0) std::memcpy(e.results[o], e.addresses[s], bytes);
  }
}

std::vector<double> PlanRunner::seconds() const {
  const std::lock_guard lock(mutex_);
  return seconds_;
}

int PlanRunner::runs() const {
  const std::lock_guard lock(mutex_);
  return runs_;
}

}  // namespace rewright::cpu
