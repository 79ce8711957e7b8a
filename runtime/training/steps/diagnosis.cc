#include "runtime/training/steps/diagnosis.h"

#include <algorithm>
#include <cmath>
#include <vector>

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
  // The nearest node of the model before it.
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

}  // namespace rewright::training
