#include "graph/gradients/differentiate.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "graph/builder.h"
#include "graph/gradients/opaque_gradient.h"

namespace rewright::graph {

namespace {

std::string described(const Node& node) {
  if (node.origin && !node.origin->name.empty()) return "node " + node.origin->name;
  return node.op ? "a node " + node.op->name() : "an opaque node";
}

// A copy of an opaque node with other inputs. Sizes that only its execution determines could differ, so they get new names.
std::vector<ValueId> opaque_copy(Graph& graph, const Node& node, std::vector<ValueId> inputs) {
  Node copy = node;
  copy.inputs = std::move(inputs);
  for (ValueId& output : copy.outputs) {
    if (output == kNoValue) continue;
    Value value = graph.value(output);
    if (!value.shape_known || !all_constant(value.type.shape))
      throw Error(ErrorCode::kUnsupported,
                  described(node) + " has sizes that are not known, and cannot be computed again: " + node.opaque_reason);
    value.name.clear();
    output = graph.add_value(std::move(value));
  }
  std::vector<ValueId> outputs = copy.outputs;
  graph.add_raw(std::move(copy));
  return outputs;
}

// y for other values of these variables, computed by new nodes.
ValueId computed_at(Graph& graph, ValueId y, std::span<const ValueId> variables, std::span<const ValueId> at) {
  std::map<ValueId, ValueId> now;
  for (std::size_t n = 0; n < variables.size(); ++n) {
    const TensorType &type = graph.value(variables[n]).type, &given = graph.value(at[n]).type;
    if (!(type == given))
      throw Error(ErrorCode::kUnsupported, "a variable is " + to_string(type) + ", its value " + to_string(given));
    now[variables[n]] = at[n];
  }
  std::vector<std::shared_ptr<const Node>> needed;
  std::set<ValueId> wanted{y};
  for (std::size_t n = graph.nodes().size(); n-- > 0;) {
    const std::shared_ptr<const Node>& node = graph.nodes()[n];
    const auto gives = [&](ValueId output) { return wanted.contains(output) && !now.contains(output); };
    if (std::none_of(node->outputs.begin(), node->outputs.end(), gives)) continue;
    needed.insert(needed.begin(), node);
    wanted.insert(node->inputs.begin(), node->inputs.end());
  }
  for (const auto& node : needed) {
    std::vector<ValueId> inputs = node->inputs;
    for (ValueId& input : inputs)
      if (const auto other = now.find(input); other != now.end()) input = other->second;
    if (inputs == node->inputs) continue;
    const std::vector<ValueId> outputs = node->op ? graph.add_node(*node->op, node->attributes, std::move(inputs))
                                                  : opaque_copy(graph, *node, std::move(inputs));
    for (std::size_t k = 0; k < node->outputs.size(); ++k)
      if (node->outputs[k] != kNoValue && !now.contains(node->outputs[k])) now[node->outputs[k]] = outputs[k];
  }
  const auto found = now.find(y);
  return found == now.end() ? y : found->second;
}

bool is_zeros(const Graph& graph, ValueId value) {
  const auto maker =
      std::ranges::find_if(graph.nodes(), [&](const auto& node) { return node->op && node->outputs == std::vector{value}; });
  if (maker == graph.nodes().end() || !(*maker)->op->is_fill()) return false;
  return std::get<Real>((*maker)->attributes.at((*maker)->op->field("value").value())) == Real(0);
}

// The sum of two gradients. If one of the nodes from number `first` on scatters its gradient into zeros, it scatters into the
// other gradient instead: then a value that is read at many places needs only one tensor for all of them.
ValueId added(Graph& graph, ValueId sum, ValueId gradient, std::size_t first) {
  NodeBuilder builder(graph);
  for (std::size_t n = graph.nodes().size(); n-- > first;) {
    const std::shared_ptr<const Node> node = graph.nodes()[n];
    if (node->outputs != std::vector{gradient}) continue;
    const bool scatters = node->op && (node->op->name() == "ScatterND" || node->op->name() == "ScatterElements");
    if (!scatters || !is_zeros(graph, node->inputs[0])) break;
    if (std::get<std::string>(node->attributes.at(node->op->field("reduction").value())) != "add") break;
    return builder.node(*node->op, node->attributes, {sum, node->inputs[1], node->inputs[2]}).at(0);
  }
  return builder.add("Add", {sum, gradient});
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
  const std::size_t first = graph.nodes().size();  // of those that are added here
  const auto add = [&](ValueId value, ValueId gradient) {
    if (gradient == kNoValue || !depends[value]) return;
    gradients[value] = gradients[value] == kNoValue ? gradient : added(graph, gradients[value], gradient, first);
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
    try {
      const std::vector<ValueId> of_inputs = node.op == nullptr
                                                 ? add_opaque_gradient(graph, node, of_outputs, wants)
                                                 : add_gradient({builder, *node.op, node.attributes, node.inputs, node.outputs,
                                                                 std::move(of_outputs), std::move(wants)});
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

std::vector<ValueId> gradients_at(Graph& graph, ValueId y, std::span<const ValueId> variables, std::span<const ValueId> at,
                                  std::size_t count) {
  if (!std::ranges::equal(variables, at)) y = computed_at(graph, y, variables, at);
  NodeBuilder builder(graph);
  const Seed seed{y, builder.filled(graph.value(y).type, 1)};
  std::vector<ValueId> gradients = differentiate(graph, {&seed, 1}, at.subspan(0, count));
  for (std::size_t n = 0; n < count; ++n)
    if (gradients[n] == kNoValue) gradients[n] = builder.filled(graph.value(at[n]).type, 0);
  return gradients;
}

}  // namespace rewright::graph
