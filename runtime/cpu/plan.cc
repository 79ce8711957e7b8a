#include "runtime/cpu/plan.h"

#include <time.h>

#include <algorithm>
#include <cstring>
#include <map>

namespace rewright::cpu {

namespace {

constexpr std::size_t kAlignment = 64;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

// The largest storage first, each at the lowest offset that is free during its whole life: at the smallest gap that fits.
void assign_memory(Plan& plan) {
  std::vector<int> order;
  for (std::size_t s = 0; s < plan.storages.size(); ++s) {
    const Storage& storage = plan.storages[s];
    if (storage.kind == Storage::Kind::kArena && storage.part_of < 0 && storage.first >= 0)
      order.push_back(static_cast<int>(s));
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return plan.storages[a].bytes > plan.storages[b].bytes; });
  std::vector<int> placed;
  plan.arena_bytes = 0;
  for (const int s : order) {
    Storage& storage = plan.storages[s];
    std::vector<std::pair<std::size_t, std::size_t>> taken;
    for (const int other : placed) {
      const Storage& o = plan.storages[other];
      if (o.first <= storage.last && storage.first <= o.last) taken.emplace_back(o.offset, o.offset + aligned(o.bytes));
    }
    std::sort(taken.begin(), taken.end());
    const std::size_t needed = aligned(storage.bytes);
    std::size_t end = 0, best = 0, best_gap = ~std::size_t{0};
    for (const auto& [from, to] : taken) {
      if (from >= end + needed && from - end < best_gap) {
        best = end;
        best_gap = from - end;
      }
      end = std::max(end, to);
    }
    storage.offset = best_gap == ~std::size_t{0} ? end : best;
    plan.arena_bytes = std::max(plan.arena_bytes, storage.offset + needed);
    placed.push_back(s);
  }
}

double work_seconds(int threads) {
  timespec now{};
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

PlanRunner::PlanRunner(Plan plan)
    : plan_(std::move(plan)),
      arena_(DataType::kUint8, {static_cast<std::int64_t>(plan_.arena_bytes)}),
      addresses_(plan_.storages.size()),
      seconds_(plan_.steps.size()) {
  std::byte* const base = arena_.mutable_bytes().data();
  for (std::size_t s = 0; s < plan_.storages.size(); ++s) {
    Storage& storage = plan_.storages[s];
    if (storage.kind == Storage::Kind::kArena && storage.part_of < 0) addresses_[s] = base + storage.offset;
    if (storage.kind == Storage::Kind::kConstant) addresses_[s] = const_cast<std::byte*>(storage.fixed);
  }
}

std::vector<Tensor> PlanRunner::run(std::span<const Tensor> inputs) {
  std::vector<Tensor> outputs(plan_.outputs.size());
  for (std::size_t o = 0; o < outputs.size(); ++o)
    outputs[o] = Tensor(plan_.output_types[o].type, values(plan_.output_types[o].shape));
  for (std::size_t s = 0; s < plan_.storages.size(); ++s) {
    const Storage& storage = plan_.storages[s];
    if (storage.kind == Storage::Kind::kInput) addresses_[s] = const_cast<std::byte*>(inputs[storage.number].bytes().data());
    if (storage.kind == Storage::Kind::kOutput) addresses_[s] = outputs[storage.number].mutable_bytes().data();
  }
  for (std::size_t s = 0; s < plan_.storages.size(); ++s) {
    std::size_t root = s, at = 0;
    while (plan_.storages[root].part_of >= 0) {
      at += plan_.storages[root].part_at;
      root = static_cast<std::size_t>(plan_.storages[root].part_of);
    }
    if (root != s) addresses_[s] = addresses_[root] + at;
  }
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  for (std::size_t n = 0; n < plan_.steps.size(); ++n) {
    const Step& step = plan_.steps[n];
    in.clear();
    out.clear();
    for (const int s : step.inputs) in.push_back(addresses_[s]);
    for (const int s : step.outputs) out.push_back(addresses_[s]);
    const Call call{in, out, step.scratch >= 0 ? addresses_[step.scratch] : nullptr, plan_.options.threads};
    if (!measured_) {
      step.kernel->run(call);
      continue;
    }
    const double start = work_seconds(plan_.options.threads);
    step.kernel->run(call);
    seconds_[n] += work_seconds(plan_.options.threads) - start;
  }
  ++runs_;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const int s = plan_.outputs[o];
    const Storage& storage = plan_.storages[s];
    const bool in_place = storage.kind == Storage::Kind::kOutput && storage.number == static_cast<int>(o);
    if (!in_place && outputs[o].byte_count() > 0)
      std::memcpy(outputs[o].mutable_bytes().data(), addresses_[s], outputs[o].byte_count());
  }
  return outputs;
}

std::vector<Tensor> evaluate_constants(const Graph& graph, const PlanOptions& options) {
  std::vector<Tensor> result(graph.value_count());
  const std::vector<bool> constant = graph.constant_values();
  // What others need: operands of nodes that are not constant, and outputs.
  std::vector<bool> wanted(graph.value_count());
  const auto is_constant_node = [&](const Node& node) {
    return node.op != nullptr && !node.op->random() && !node.outputs.empty() &&
           std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId o) { return o == kNoValue || constant[o]; });
  };
  for (const auto& node : graph.nodes())
    if (!is_constant_node(*node))
      for (const ValueId i : node->inputs)
        if (i != kNoValue) wanted[i] = true;
  for (const GraphOutput& o : graph.outputs()) wanted[o.value] = true;

  Graph part;
  std::map<ValueId, ValueId> copies;
  const auto copy_of = [&](ValueId v) {
    if (v == kNoValue) return kNoValue;
    const auto [found, added] = copies.emplace(v, kNoValue);
    if (added) found->second = part.add_constant(graph.value(v).constant);
    return found->second;
  };
  std::vector<ValueId> results;
  for (const auto& node : graph.nodes()) {
    if (!is_constant_node(*node)) continue;
    std::vector<ValueId> inputs;
    for (const ValueId i : node->inputs) inputs.push_back(copy_of(i));
    const std::vector<ValueId> outputs = part.add_node(*node->op, node->attributes, inputs);
    for (std::size_t o = 0; o < node->outputs.size(); ++o) {
      const ValueId v = node->outputs[o];
      if (v == kNoValue) continue;
      copies[v] = outputs.at(o);
      if (!wanted[v]) continue;
      results.push_back(v);
      part.add_output("v" + std::to_string(v), outputs.at(o));
    }
  }
  if (results.empty()) return result;
  PlanOptions once = options;
  once.fold_constants = false;
  PlanRunner runner(make_plan(part, once));
  std::vector<Tensor> tensors = runner.run({});
  for (std::size_t n = 0; n < results.size(); ++n) result[results[n]] = std::move(tensors[n]);
  return result;
}

}  // namespace rewright::cpu
