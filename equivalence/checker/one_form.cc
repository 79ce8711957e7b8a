#include "equivalence/checker/one_form.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/onnx/opaque_meaning.h"

namespace rewright::equivalence {

namespace {

// ONNX defines HardSwish by two other operators, with a float for 1 / 6, and so do tools that write it out.
void add_hard_swish(Graph& result, const Node& node) {
  const Operator &sigmoid = registry().get("HardSigmoid"), &product = registry().get("Mul");
  Attributes attributes = sigmoid.defaults();
  attributes.at(sigmoid.field("alpha").value()) = Real(static_cast<double>(1.0f / 6.0f));
  attributes.at(sigmoid.field("beta").value()) = Real(0.5);
  const ValueId factor = result.add_node(sigmoid, std::move(attributes), {node.inputs[0]}).at(0);
  Node last = node;
  last.op = &product, last.attributes = product.defaults(), last.inputs = {node.inputs[0], factor};
  result.add_raw(std::move(last));
}

// Replaces absent inputs of a recurrent node by the zeros that they stand for.
void add_with_zeros(Graph& result, const Node& node, const std::vector<ImplicitZeros>& zeros) {
  const Operator& fill = registry().get("Fill");
  Node complete = node;
  for (const ImplicitZeros& z : zeros) {
    Attributes attributes = fill.defaults();
    attributes.at(fill.field("value").value()) = Real(0);
    attributes.at(fill.field("shape").value()) = z.type.shape;
    attributes.at(fill.field("type").value()) = z.type.type;
    if (complete.inputs.size() <= z.input) complete.inputs.resize(z.input + 1, kNoValue);
    complete.inputs[z.input] = result.add_node(fill, std::move(attributes), {}).at(0);
  }
  result.add_raw(std::move(complete));
}

}  // namespace

bool is_inverse(const Indices& forth, const Indices& back) {
  bool inverse = forth.size() == back.size();
  for (std::size_t k = 0; inverse && k < back.size(); ++k)
    inverse = back[k].is_constant() && forth.at(static_cast<std::size_t>(back[k].value())) == Index(k);
  return inverse;
}

std::optional<std::vector<ValueId>> joined_channels(const Graph& graph, const Maker& made_by, const Node& last) {
  const auto shape = [&](ValueId id) -> const Indices& { return graph.value(id).type.shape; };
  const auto keep_all_but_second = [](const Indices& x, const Indices& y) {
    return x.size() >= 2 && x.size() == y.size() && x[0] == y[0] && std::equal(x.begin() + 2, x.end(), y.begin() + 2);
  };
  const auto perm = [](const Node& node) -> const Indices& {
    return std::get<Indices>(node.attributes[node.op->field("perm").value()]);
  };
  const Node* out = last.op && last.op->name() == "Reshape" ? made_by(last.inputs[0], "Transpose") : nullptr;
  const Node* apart = out ? made_by(out->inputs[0], "Reshape") : nullptr;
  const Node* concat = apart ? made_by(apart->inputs[0], "Concat") : nullptr;
  if (!concat || !(std::get<Index>(concat->attributes[concat->op->field("axis").value()]) == Index(1)) ||
      perm(*out).size() < 2 || !(perm(*out)[0] == Index(0)) || !(perm(*out)[1] == Index(1)))
    return std::nullopt;
  std::vector<ValueId> parts;
  Index channels = 0;
  for (const ValueId id : concat->inputs) {
    const Node* joined = made_by(id, "Reshape");
    const Node* in = joined ? made_by(joined->inputs[0], "Transpose") : nullptr;
    const Node* first = in ? made_by(in->inputs[0], "Reshape") : nullptr;
    if (!first || !is_inverse(perm(*in), perm(*out)) || !keep_all_but_second(shape(apart->outputs[0]), shape(in->outputs[0])) ||
        !keep_all_but_second(shape(last.outputs[0]), shape(first->inputs[0])) || !(shape(id)[0] == shape(last.outputs[0])[0]) ||
        !(shape(apart->outputs[0])[0] == shape(last.outputs[0])[0]))
      return std::nullopt;
    parts.push_back(first->inputs[0]);
    channels = channels + shape(parts.back())[1];
  }
  // The Reshape asks for as many elements as it gets, which nothing else asks for.
  return channels == shape(last.outputs[0])[1] ? std::optional(std::move(parts)) : std::nullopt;
}

Graph with_one_form(const Graph& graph) {
  const Operator* const whole = registry().find("HardSwish");
  const std::vector<std::shared_ptr<const Node>> nodes(graph.nodes().begin(), graph.nodes().end());
  const std::vector<std::int32_t> producers = graph.producers();
  const Maker made_by = [&](ValueId id, std::string_view op) {
    const Node* node = producers[id] < 0 ? nullptr : nodes[static_cast<std::size_t>(producers[id])].get();
    return node && node->op && node->op->name() == op ? node : nullptr;
  };
  Graph result = graph;
  result.drop_nodes_from(0);
  for (const auto& node : nodes) {
    if (auto parts = joined_channels(graph, made_by, *node)) {
      const Operator& concat = registry().get("Concat");
      Node joined = *node;
      joined.op = &concat, joined.attributes = concat.defaults(), joined.inputs = std::move(*parts);
      joined.attributes.at(concat.field("axis").value()) = Index(1);
      result.add_raw(std::move(joined));
      continue;
    }
    const std::vector<ImplicitZeros> zeros = implicit_zeros(graph, *node);
    if (node->op == whole)
      add_hard_swish(result, *node);
    else if (!zeros.empty())
      add_with_zeros(result, *node, zeros);
    else
      result.add_shared(node);
  }
  return result;
}

}  // namespace rewright::equivalence
