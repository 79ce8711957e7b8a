#include "verifier/view.h"

#include "operators/specification.h"

namespace rewright::proof {

namespace {

// The node that makes an output which nothing else on its side reads; null otherwise.
PatternNode* maker_of(Pattern& side, const PatternValue& output) {
  if (output.kind != PatternValue::Kind::kNode || output.output != 0) return nullptr;
  for (const PatternNode& node : side.nodes)
    for (const PatternValue& input : node.inputs)
      if (input.kind == PatternValue::Kind::kNode && input.number == output.number) return nullptr;
  return &side.nodes.at(output.number);
}

}  // namespace

Rule through_views(const Rule& rule) {
  Rule result = rule;
  // With several outputs a node could make more than one of them.
  if (rule.source.outputs.size() != 1) return rule;
  PatternNode* const source = maker_of(result.source, rule.source.outputs[0]);
  PatternNode* const target = maker_of(result.target, rule.target.outputs[0]);
  if (!source || !target || source->op != target->op || source->attributes != target->attributes) return rule;
  const Operator* const view = operators::view_of(*source->op);
  if (!view) return rule;
  // The view has as many outputs as mandatory inputs.
  const auto outputs = static_cast<std::uint32_t>(source->op->min_inputs());
  for (auto* node : {source, target}) node->op = view, node->outputs = outputs;
  for (auto* side : {&result.source, &result.target}) {
    const PatternValue made = side->outputs[0];
    side->outputs.clear();
    for (std::uint32_t n = 0; n < outputs; ++n) side->outputs.push_back(PatternValue::node(made.number, n));
  }
  return result;
}

}  // namespace rewright::proof
