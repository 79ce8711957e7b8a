#include "runtime/planning/pieces.h"

#include <algorithm>

namespace rewright::planning {

namespace {

// The Slices that replace a node; empty if its results are not slices.
std::vector<Node> slices_of(const Graph& graph, const Node& node, const ComputesMore& computes) {
  if (node.op == nullptr || node.outputs.size() < 2) return {};
  for (const ValueId i : node.inputs)
    if (i != kNoValue && !graph.value(i).shape_known) return {};
  if (computes(graph, node)) return {};
  const Definition definition =
      node.op->define(node.attributes, Inputs::of(std::span<const std::optional<TensorType>>(graph.operand_types(node))));
  if (!definition.has_denotation()) return {};
  const Operator& slice = registry().get("Slice");
  std::vector<Node> slices;
  for (std::size_t o = 0; o < node.outputs.size(); ++o) {
    const Output& output = definition.outputs()[o];
    const ElementNode& element = *output.element;
    if (element.kind != ElementNode::Kind::kRead || element.zero_outside) return {};
    if (element.position.size() != output.position.size()) return {};
    Indices begin;
    for (std::size_t a = 0; a < output.position.size(); ++a) {
      begin.push_back(element.position[a] - output.position[a]);
      if (!begin.back().is_constant()) return {};
    }
    if (node.outputs[o] == kNoValue) continue;
    Node& made = slices.emplace_back();
    made.op = &slice;
    made.attributes = slice.defaults();
    made.attributes[*slice.field("step")] = Indices(begin.size(), 1);
    made.attributes[*slice.field("begin")] = std::move(begin);
    made.attributes[*slice.field("length")] = output.type.shape;
    made.inputs = {node.inputs[static_cast<std::size_t>(element.operand)]};
    made.outputs = {node.outputs[o]};
    made.origin = node.origin;
  }
  return slices;
}

}  // namespace

Graph with_pieces_apart(Graph graph, const ComputesMore& computes) {
  std::vector<std::vector<Node>> slices;
  for (const auto& node : graph.nodes()) slices.push_back(slices_of(graph, *node, computes));
  if (std::all_of(slices.begin(), slices.end(), [](const auto& list) { return list.empty(); })) return graph;
  const std::vector<std::shared_ptr<const Node>> nodes(graph.nodes().begin(), graph.nodes().end());
  graph.drop_nodes_from(0);
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (slices[n].empty()) graph.add_shared(nodes[n]);
    for (Node& slice : slices[n]) graph.add_raw(std::move(slice));
  }
  return graph;
}

}  // namespace rewright::planning
