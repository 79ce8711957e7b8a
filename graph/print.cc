// Graphs as text, one line a node.
#include "graph/print.h"

namespace rewright::graph {

namespace {

std::string label(const Graph& graph, ValueId id) {
  if (id == kNoValue) return "-";
  const std::string& name = graph.value(id).name;
  return name.empty() ? "%" + std::to_string(id) : name;
}

std::string labels(const Graph& graph, const std::vector<ValueId>& ids) {
  std::string text;
  for (ValueId id : ids) text += (text.empty() ? "" : ", ") + label(graph, id);
  return text;
}

}  // namespace

std::string node_name(const Graph& graph, const Node& node) {
  if (node.origin && !node.origin->name.empty()) return node.origin->name;
  for (const ValueId id : node.outputs)
    if (id != kNoValue && !graph.value(id).name.empty()) return graph.value(id).name;
  return node.op ? node.op->name() : "unnamed";
}

std::string type_text(const TensorType& type, bool shape_known) {
  if (shape_known) return to_string(type);
  return type.type == DataType::kUndefined ? "?" : std::string(name(type.type)) + "[...]";
}

std::string to_string(const Graph& graph) {
  std::string text;
  for (ValueId id : graph.inputs())
    text += "input " + label(graph, id) + ": " + type_text(graph.value(id).type, graph.value(id).shape_known) + "\n";
  for (const auto& node : graph.nodes()) {
    text += labels(graph, node->outputs) + " = ";
    if (node->op != nullptr) {
      text += node->op->name() + "(" + labels(graph, node->inputs) + ")";
      for (std::size_t i = 0; i < node->attributes.size(); ++i)
        text += (i == 0 ? " " : ", ") + node->op->fields()[i].name + "=" + to_string(node->attributes[i]);
    } else {
      text += "opaque " + (node->origin ? node->origin->name : std::string()) + "(" + labels(graph, node->inputs) + ") [" +
              node->opaque_reason + "]";
    }
    text += " :";
    for (ValueId id : node->outputs)
      text += " " + (id == kNoValue ? std::string("-") : type_text(graph.value(id).type, graph.value(id).shape_known));
    text += "\n";
  }
  for (const GraphOutput& output : graph.outputs())
    text +=
        "output " + output.name + " = " + label(graph, output.value) + ": " + type_text(output.type, output.shape_known) + "\n";
  return text;
}

}  // namespace rewright::graph
