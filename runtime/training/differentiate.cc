#include "runtime/training/differentiate.h"

#include <string>
#include <utility>

#include "graph/builder.h"

namespace rewright {

namespace {

std::string described(const Node& node) {
  if (node.origin && !node.origin->name.empty()) return "node " + node.origin->name;
  return node.op ? "a node " + node.op->name() : "an opaque node";
}

}  // namespace

std::vector<ValueId> differentiate(Graph& graph, std::span<const Seed> seeds, std::span<const ValueId> wanted) {
  // Values that depend on a wanted one: only these need gradients.
  std::vector<bool> depends(graph.value_count(), false);
  for (const ValueId value : wanted) depends[value] = true;
  const std::vector<std::shared_ptr<const Node>> nodes(graph.nodes().begin(), graph.nodes().end());
  for (const auto& node : nodes)
    for (const ValueId input : node->inputs)
      if (input != kNoValue && depends[input])
        for (const ValueId output : node->outputs)
          if (output != kNoValue) depends[output] = true;

  NodeBuilder builder(graph);
  std::vector<ValueId> gradients(depends.size(), kNoValue);
  const auto add = [&](ValueId value, ValueId gradient) {
    if (gradient == kNoValue || !depends[value]) return;
    gradients[value] = gradients[value] == kNoValue ? gradient : builder.add("Add", {gradients[value], gradient});
  };
  for (const Seed& seed : seeds) add(seed.value, seed.gradient);

  for (auto at = nodes.rbegin(); at != nodes.rend(); ++at) {
    const Node& node = **at;
    std::vector<ValueId> of_outputs;
    bool any = false;
    for (const ValueId output : node.outputs) {
      of_outputs.push_back(output == kNoValue ? kNoValue : gradients[output]);
      any = any || of_outputs.back() != kNoValue;
    }
    if (!any) continue;
    std::vector<bool> wants;
    bool wants_any = false;
    for (const ValueId input : node.inputs) {
      wants.push_back(input != kNoValue && depends[input]);
      wants_any = wants_any || wants.back();
    }
    if (!wants_any) continue;
    if (!node.op) throw Error(ErrorCode::kUnsupported, described(node) + " has no gradient: " + node.opaque_reason);
    try {
      const std::vector<ValueId> of_inputs = add_gradient(
          {builder, *node.op, node.attributes, node.inputs, node.outputs, std::move(of_outputs), std::move(wants)});
      for (std::size_t i = 0; i < of_inputs.size(); ++i)
        if (of_inputs[i] != kNoValue) add(node.inputs[i], of_inputs[i]);
    } catch (const Error& e) {
      throw Error(e.code(), described(node) + ": " + e.text());
    }
  }
  std::vector<ValueId> result;
  for (const ValueId value : wanted) result.push_back(gradients[value]);
  return result;
}

}  // namespace rewright
