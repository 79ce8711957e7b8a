#include "runtime/training/graphs/mixed_precision.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "graph/builder.h"

namespace rewright::training {

namespace {

using Kind = ElementNode::Kind;

// The operand that an expression reads, ignoring conversions; -1 for other expressions.
int operand_of(const Element& e) {
  if (e->kind == Kind::kConvert) return operand_of(e->arguments[0]);
  return e->kind == Kind::kRead ? e->operand : -1;
}

bool holds_product(const Element& e, bool summed) {
  if (e->kind == Kind::kReduce) return e->reduction == Reduction::kSum && holds_product(e->arguments[0], true);
  if (e->kind == Kind::kMultiply && summed) {
    const int a = operand_of(e->arguments[0]), b = operand_of(e->arguments[1]);
    return a >= 0 && b >= 0 && a != b;
  }
  // Applied after summing: a bias, a factor.
  const bool outside = !summed && (e->kind == Kind::kAdd || e->kind == Kind::kMultiply || e->kind == Kind::kConvert);
  return outside &&
         std::any_of(e->arguments.begin(), e->arguments.end(), [](const Element& a) { return holds_product(a, false); });
}

}  // namespace

bool is_product(const Graph& graph, const Node& node) {
  if (node.op == nullptr) return false;
  const std::vector<std::optional<TensorType>> types = graph.operand_types(node);
  const Definition definition = node.op->define(node.attributes, Inputs::of(std::span(types)));
  return definition.outputs().size() == 1 && definition.outputs()[0].element &&
         holds_product(definition.outputs()[0].element, false);
}

void use_short_products(Graph& graph, DataType type) {
  NodeBuilder builder(graph);
  const std::vector<std::shared_ptr<const Node>> nodes(graph.nodes().begin(), graph.nodes().end());
  std::vector<std::pair<ValueId, ValueId>> replaced;
  for (const auto& node : nodes) {
    const auto is_float = [&](ValueId v) { return v == kNoValue || graph.value(v).type.type == DataType::kFloat; };
    if (node->outputs.size() != 1 || !std::all_of(node->inputs.begin(), node->inputs.end(), is_float)) continue;
    if (!is_product(graph, *node)) continue;
    std::vector<ValueId> inputs;
    for (const ValueId v : node->inputs) inputs.push_back(v == kNoValue ? v : builder.cast(v, type));
    const ValueId result = builder.node(*node->op, node->attributes, std::move(inputs)).at(0);
    replaced.emplace_back(node->outputs[0], builder.cast(result, DataType::kFloat));
  }
  graph.replace_uses(replaced);
}

bool LossScale::update(bool finite) {
  if (!finite) {
    good_steps = 0;
    const bool may_shrink = scale > 1;
    if (may_shrink) scale /= 2;
    return may_shrink;
  }
  if (++good_steps == kGrowAfter) {
    good_steps = 0;
    scale = std::min(scale * 2, 16777216.0);
  }
  return false;
}

}  // namespace rewright::training
