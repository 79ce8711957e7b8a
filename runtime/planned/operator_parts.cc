#include "runtime/planned/operator_parts.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "plans/cuts/cut.h"
#include "runtime/planned/plan_choices.h"

namespace rewright::runtime {

namespace {

constexpr double kLeastShare = 1e-3;  // of a graph's time

// The node alone with these operands; constants stay constants, whose values do not matter where they are parts.
std::optional<Graph> alone(const Graph& graph, const Node& node, Attributes attributes,
                           const std::vector<std::optional<TensorType>>& types) {
  Graph result;
  std::vector<ValueId> operands;
  for (std::size_t k = 0; k < node.inputs.size(); ++k) {
    const ValueId v = node.inputs[k];
    if (v == kNoValue)
      operands.push_back(kNoValue);
    else if (!graph.is_constant(v))
      operands.push_back(result.add_input("x" + std::to_string(k), *types[k]));
    else if (graph.value(v).type == *types[k])
      operands.push_back(result.add_constant(graph.value(v).constant));
    else
      operands.push_back(result.add_constant(Tensor(types[k]->type, values(types[k]->shape))));
  }
  try {
    const std::vector<ValueId> results = result.add_node(*node.op, std::move(attributes), std::move(operands));
    for (std::size_t o = 0; o < results.size(); ++o) result.add_output("y" + std::to_string(o), results[o]);
  } catch (const Error&) {
    return std::nullopt;  // the cut was only proposed: its parts are no operands of the operator
  }
  return result;
}

}  // namespace

std::vector<Graph> operator_parts(const plans::Machine& machine, std::span<const Graph> graphs, std::size_t processes) {
  std::vector<Graph> result;
  if (processes < 2) return result;
  const plans::OperatorSeconds seconds = device_seconds(machine);
  plans::CutFinder cuts(false);
  std::set<std::string> known;
  for (const Graph& graph : graphs) {
    std::vector<double> times;
    double all = 0;
    for (const auto& node : graph.nodes()) {
      times.push_back(node->op ? seconds(*node->op, node->attributes, graph.operand_types(*node), 1) : 0);
      all += times.back();
    }
    for (std::size_t n = 0; n < times.size(); ++n) {
      const Node& node = *graph.nodes()[n];
      if (!node.op || times[n] < kLeastShare * all) continue;
      const std::vector<std::optional<TensorType>> types = graph.operand_types(node);
      std::string key = plans::node_key(*node.op, node.attributes, types);
      for (const ValueId v : node.inputs) key += v != kNoValue && graph.is_constant(v) ? " constant" : " -";
      if (!known.insert(std::move(key)).second) continue;
      for (const plans::Cut& cut : cuts.find(*node.op, node.attributes, types)) {
        const std::optional<std::int64_t> units = cut.units.constant();
        const auto count = static_cast<std::int64_t>(processes);
        if (!units || !cut.divides() || *units < count) continue;
        const Index most = (*units + count - 1) / count;
        auto part = alone(graph, node, part_attributes(node.attributes, cut, most, false, false),
                          part_types(types, cut, most, false, false));
        if (part) result.push_back(std::move(*part));
      }
    }
  }
  return result;
}

}  // namespace rewright::runtime
