#include "runtime/training/steps/diagnosis.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "graph/onnx/body.h"
#include "runtime/mixed.h"

namespace rewright::training {

namespace {

bool is_finite(const Tensor& tensor) {
  if (!is_real(tensor.type())) return true;
  const std::vector<double> values = tensor.reals();
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

std::string operator_of(const Node& node) { return node.op ? node.op->name() : onnx_operator(node); }

std::string described(const Graph& graph, const std::vector<std::int32_t>& producers, const Node& node) {
  if (node.origin && !node.origin->name.empty()) return "node \"" + node.origin->name + "\" (" + operator_of(node) + ")";
  // Breadth-first search backwards for the nearest node of the model.
  std::vector<const Node*> before{&node};
  for (std::size_t k = 0; k < before.size() && before.size() < graph.nodes().size(); ++k)
    for (const ValueId v : before[k]->inputs) {
      if (v == kNoValue || producers[v] < 0) continue;
      const Node& other = *graph.nodes()[static_cast<std::size_t>(producers[v])];
      if (other.origin && !other.origin->name.empty())
        return "a node " + operator_of(node) + " of training behind node \"" + other.origin->name + "\"";
      if (std::find(before.begin(), before.end(), &other) == before.end()) before.push_back(&other);
    }
  return "a node " + operator_of(node) + " of training";
}

}  // namespace

std::string first_not_finite(const Graph& graph, std::span<const Tensor> inputs, const Backend& backend, int threads) {
  for (std::size_t n = 0; n < inputs.size(); ++n)
    if (!is_finite(inputs[n])) return "\"" + graph.value(graph.inputs()[n]).name + "\"";
  Graph all = graph;
  all.set_outputs({});
  std::vector<ValueId> kept;
  for (const auto& node : graph.nodes())
    for (const ValueId v : node->outputs)
      if (v != kNoValue && is_real(graph.value(v).type.type)) {
        all.add_output("training.value." + std::to_string(kept.size()), v);
        kept.push_back(v);
      }
  const std::vector<Tensor> values = prepare_session(backend, all, {.threads = threads})->run(inputs);
  std::vector<bool> bad(graph.value_count());
  for (std::size_t k = 0; k < kept.size(); ++k) bad[kept[k]] = !is_finite(values[k]);
  const auto any = [&](const std::vector<ValueId>& list) {
    return std::any_of(list.begin(), list.end(), [&](ValueId v) {
      return v != kNoValue && (bad[v] || (graph.is_constant(v) && !is_finite(graph.value(v).constant)));
    });
  };
  for (const auto& node : graph.nodes())
    if (any(node->outputs) && !any(node->inputs)) return "the result of " + described(graph, graph.producers(), *node);
  return {};
}

std::string diagnose(TrainingStep& step, const TrainingGraphs& graphs, const std::vector<std::vector<Tensor>>& shards,
                     const Backend& backend, int threads, Communicator& processes) {
  const TrainedTensors all = step.gather();
  // A sum that is not finite is caused by some shard. It is replaced by zeros, so that this shard is found and not a reader of
  // the sum.
  std::vector<Tensor> sums = step.sums();
  for (Tensor& sum : sums)
    if (!is_finite(sum))
      sum = Tensor::from_reals(sum.type(), sum.sizes(), std::vector<double>(static_cast<std::size_t>(sum.size())));
  std::string found;
  for (std::vector<Tensor> inputs : shards) {
    for (const auto* list : {&all.parameters, &all.statistics}) inputs.insert(inputs.end(), list->begin(), list->end());
    inputs.insert(inputs.end(), sums.begin(), sums.end());
    if (found.empty()) found = first_not_finite(graphs.gradients, inputs, backend, threads);
  }
  for (const std::string& of_process : processes.all_gather(found))
    if (!of_process.empty()) return of_process;
  return {};
}

void compare_copies(const TrainingStep& step, const TrainingGraphs& graphs, std::int64_t number, Communicator& processes) {
  const std::vector<std::uint64_t> mine = step.copies();
  const std::vector<std::string> all =
      processes.all_gather({reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(std::uint64_t)});
  for (std::size_t p = 1; p < all.size(); ++p)
    for (std::size_t n = 0; n < mine.size(); ++n) {
      if (all[p].compare(8 * n, 8, all[0], 8 * n, 8) == 0) continue;
      // Partitioned parameters are not in this list; statistics always are, after them.
      const bool parameter = mine.size() > graphs.statistics.size() && n < graphs.parameters.size();
      const std::string& name =
          parameter ? graphs.parameters[n].name : graphs.statistics[n + graphs.statistics.size() - mine.size()].name;
      throw Error(ErrorCode::kMissing,
                  "step " + std::to_string(number) + ": process " + std::to_string(p) + " holds another '" + name +
                      "' than process 0, though both computed it from the same numbers",
                  {}, "memory or a processor may be faulty; the checkpoint before it is good");
    }
}

}  // namespace rewright::training
