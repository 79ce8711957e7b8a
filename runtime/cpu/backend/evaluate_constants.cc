#include "runtime/cpu/planning/evaluate_constants.h"

#include <algorithm>
#include <map>

#include "optimizer/folding/rounding.h"
#include "runtime/cpu/backend/evaluator.h"
#include "runtime/cpu/running/runner.h"

namespace rewright::cpu {

namespace {

std::uint64_t folded_name(const std::vector<std::uint64_t>& hashes, ValueId value) {
  return cache_name(hashes[value], "folded");
}

// The values of these numbers from the plan cache; false if it does not have all of them.
bool find_constants(const Graph& graph, const std::vector<ValueId>& wanted, PlanCache& cache, std::vector<Tensor>& result) {
  const std::vector<std::uint64_t> hashes = graph.value_hashes();
  std::vector<Tensor> found(graph.value_count());
  for (const ValueId v : wanted) {
    const TensorType& type = graph.value(v).type;
    const Tensor bytes = cache.find(folded_name(hashes, v));
    if (!bytes || !graph.value(v).shape_known || !all_constant(type.shape)) return false;
    const Sizes sizes = values(type.shape);
    const auto owner = std::make_shared<const Tensor>(bytes);
    found[v] = Tensor(type.type, sizes, owner, owner->bytes().data());
    if (found[v].byte_count() != bytes.byte_count()) return false;
  }
  result = std::move(found);
  return true;
}

// The bytes of each, under a name of its own.
void add_constants(const Graph& graph, const std::vector<ValueId>& names, PlanCache& cache,
                   const std::vector<Tensor>& tensors) {
  const std::vector<std::uint64_t> hashes = graph.value_hashes();
  for (std::size_t n = 0; n < names.size(); ++n) {
    if (byte_size(tensors[n].type()) == 0) continue;
    const auto owner = std::make_shared<const Tensor>(tensors[n]);
    cache.add(folded_name(hashes, names[n]),
              Tensor(DataType::kUint8, {static_cast<std::int64_t>(owner->byte_count())}, owner, owner->bytes().data()));
  }
}

}  // namespace

std::vector<Tensor> evaluate_constants(const Graph& graph, const PlanOptions& options, const std::vector<bool>& left_out) {
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
  for (ValueId v = 0; v < left_out.size(); ++v) wanted[v] = wanted[v] && !left_out[v];

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
  once.cache = nullptr;
  once.choices = nullptr;
  once.replacements.clear();
  PlanCache* const cache = options.cache;
  if (cache != nullptr && find_constants(graph, results, *cache, result)) return result;
  const auto by_kernels = [&](const Graph& constants) { return PlanRunner(make_plan(constants, once)).run({}); };
  // Kernels and the optimizer's folding decide alike; a node alone has nothing before it that is rounded.
  std::vector<Tensor> tensors =
      part.nodes().size() > 1 && decides_by_reals(part)
          ? evaluate_with_decisions(part, deciding_values(part), *make_cpu_evaluator(options.threads), by_kernels)
          : by_kernels(part);
  if (cache != nullptr) add_constants(graph, results, *cache, tensors);
  for (std::size_t n = 0; n < results.size(); ++n) result[results[n]] = std::move(tensors[n]);
  return result;
}

}  // namespace rewright::cpu
